# roofline-assumed.gp - what is assumed of the GPU, each value with its range and reason (assumed-labels.gp is written from the dataset).
TITLE = "The GPU: what is assumed"
FINDING = FIND_ASSUMED
NOTE = ""
load 'assumed-labels.gp'
load 'page.gp'
unset multiplot

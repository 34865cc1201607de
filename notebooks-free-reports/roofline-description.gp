# roofline-description.gp - what is known of the GPU and what is assumed (description-labels.gp is written from the dataset).
TITLE = "The GPU: what is known of it, assumed and missing"
FINDING = FIND_DESCRIPTION
NOTE = DESCRIBED > 0 ? "" : "This dataset holds no description of a GPU."
load 'description-labels.gp'
load 'page.gp'
unset multiplot

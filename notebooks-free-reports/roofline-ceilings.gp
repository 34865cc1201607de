# roofline-ceilings.gp - the table of ceilings (ceiling-labels.gp is written from the dataset).
TITLE = "Ceilings: what they are and where they come from"
FINDING = FIND_CEILINGS
NOTE = CEILINGS > 0 ? "" : "This dataset holds no ceiling."
load 'ceiling-labels.gp'
load 'page.gp'
unset multiplot

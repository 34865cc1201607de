# audit-families.gp - the families of kernels that do not run whole on the GPU asked about (family-labels-N.gp are written from
# the dataset, one a page).
TITLE = "Kernels that do not run"
FINDING = FIND_FAMILIES
NOTE = ASKED == 0 ? "No GPU was asked about." : FAILING > 0 ? "" : "Every family of kernels runs."
load sprintf('family-labels-%d.gp', PAGE - 2)
load 'page.gp'
unset multiplot

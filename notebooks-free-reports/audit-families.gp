# audit-families.gp - the families of kernels that do not run whole on the GPU asked about (family-labels.gp is written from the
# dataset).
TITLE = "Kernels that do not run"
FINDING = FIND_FAMILIES
NOTE = ASKED == 0 ? "No GPU was asked about." : FAILING > 0 ? "" : "Every family of kernels runs."
load 'family-labels.gp'
load 'page.gp'
unset multiplot

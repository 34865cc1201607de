# roofline-key.gp - the key at the right of a page, where it stands and the panel beside it. Its entries are the
# macros KERNEL_KEY, VARIANT_KEY and STATUS_KEY of style.gp.
set key at screen 0.748,0.845 left top vertical Left reverse samplen 2.4 spacing 1.3 width 0 font FACE.",10"
if (AT_ZERO > 0) { set label 901 sprintf("%.0f points of prefix 0 have\nno place on a log axis", AT_ZERO) at screen 0.757,0.22 left font FACE.",9" tc rgb GREY }
if (LEFT_OUT > 0) { set label 902 sprintf("%.0f more points are in the dataset,\nbeyond what one page can show", LEFT_OUT) at screen 0.757,0.17 left font FACE.",9" tc rgb GREY }
set lmargin at screen 0.108
set rmargin at screen 0.735
set bmargin at screen 0.155
set tmargin at screen 0.845

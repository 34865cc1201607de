# roofline-key.gp - the key at the right of a page, where it stands and the panel beside it. Its entries are the
# macros KERNEL_KEY, VARIANT_KEY and STATUS_KEY of style.gp.
set key at screen 0.768,0.845 left top vertical Left reverse samplen 2.4 spacing 1.3 width 0 font FACE.",10"
set lmargin at screen 0.095
set rmargin at screen 0.745
set bmargin at screen 0.155
set tmargin at screen 0.845

# roofline-resources.gp - use of each resource as a share of its best rate, of the chip and of its busiest SM, a panel a kernel.
# The axis is 0 to 100 %, wider only where a bar goes beyond.
TITLE = USE_KERNEL_COUNT > 8 ? "Use of each resource: the first 8 kernels" : "Use of each resource"
FINDING = FIND_RESOURCES
NOTE = USE_KERNEL_COUNT > 0 ? "" : "This dataset holds no point with a time."
load 'page.gp'
if (USE_KERNEL_COUNT > 0) {
  KEY_COLUMNS = 3
  KEY_ROWS = 1
  load 'key-open.gp'
  plot 2 notitle, \
    keyentry with boxes fs solid 1 border lc rgb INK fc rgb "#00395c" title "whole chip", \
    keyentry with boxes fs solid 1 border lc rgb INK fc rgb "#f3c9a8" title "busiest SM", \
    keyentry with dots lc rgb "#ffffff" title USE_EVEN > 0 ? "~  SMs with a block taken as alike" : ""
  load 'key-close.gp'
  PANELS = smaller(int(USE_KERNEL_COUNT), 8)
  load 'panels.gp'
  set xrange [0.4:6.6]
  TOP = USE_MOST > 100 ? USE_MOST * 1.12 : 118
  set yrange [0:TOP]
  set ytics 0,25,100 font FACE.",9.5" scale 0.6
  unset grid
  set grid ytics
  do for [p = 0:PANELS - 1] {
    PANEL = p
    load 'panel.gp'
    set xtics ("" 0) scale 0 font FACE.",9.5"
    do for [u = 1:6] { set xtics add (USE_NAME[u] u) }
    if (PANEL_LEFT) { set format y "%g"; set ylabel "% of its best rate" } else { set format y ""; unset ylabel }
    set label 1 USE_KERNEL[p + 1] at graph 0,1 left offset 0,0.7 font FACE.":Bold,11"
    set arrow 1 from 0.4,100 to 6.6,100 nohead lw 1.2 lc rgb INK back
    SMALL = ACROSS > 2 ? ",7.5" : ",8.5"
    told(v) = v != v ? "" : v < 0.95 ? sprintf("%.1f", v) : sprintf("%.0f", v)
    plot 'resources.tsv' index p using ($1 - 0.19):2:(0.36) with boxes fs solid 1 border lc rgb INK fc rgb "#00395c", \
         '' index p using ($1 + 0.19):3:(0.36) with boxes fs solid 1 border lc rgb INK fc rgb "#f3c9a8", \
         '' index p using ($1 - 0.19):2:(told($2)) with labels offset 0,0.55 font FACE.SMALL, \
         '' index p using ($1 + 0.19):3:(($4 == 1 ? "~" : "").told($3)) with labels offset 0,0.55 font FACE.SMALL
  }
}
unset multiplot

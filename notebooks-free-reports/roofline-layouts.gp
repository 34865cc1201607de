# roofline-layouts.gp - layouts side by side: time over that of contiguous rows, paired by round, a panel a kernel. The ratio's
# axis is 0.95 to 1.10, wider only where an interval lies outside.
TITLE = KERNELS > 8 ? sprintf("Layouts side by side: the first 8 of %.0f kernels", KERNELS) : "Layouts side by side"
FINDING = FIND_LAYOUTS
NOTE = LAYOUTS > 0 ? "" : "No layout was measured beside contiguous rows."
load 'page.gp'
if (LAYOUTS > 0) {
  KEY_COLUMNS = 4
  KEY_ROWS = LAYOUTS > 4 ? 2 : 1
  load 'key-open.gp'
  plot 2 notitle, for [l = 0:int(LAYOUTS) - 1] keyentry with linespoints pt filled(l + 1) ps 1 lw 1.6 dt dash(l) lc rgb colour(l) title LAYOUT_NAME[l + 1]
  load 'key-close.gp'
  PANELS = smaller(int(KERNELS), 8)
  load 'panels.gp'
  PREFIX_LABELS = ACROSS == 1 ? 12 : ACROSS == 2 ? 7 : ACROSS == 3 ? 5 : 4
  load 'roofline-prefix.gp'
  set xtics font FACE.",9.5"
  set ytics font FACE.",9.5" scale 0.6
  set yrange [smaller(0.95, LAYOUT_LEAST - 0.005):larger(1.10, LAYOUT_MOST + 0.005)]
  # Layouts stand side by side at each prefix.
  aside(l) = 2.0 ** (0.12 * (l - (LAYOUTS - 1) / 2.0))
  do for [p = 0:PANELS - 1] {
    PANEL = p
    load 'panel.gp'
    if (PANEL_LEFT) { set format y "%.2f"; set ylabel "t / t contiguous" } else { set format y ""; unset ylabel }
    if (PANEL_LAST) { set xlabel "prefix (tokens, k = 1024; log)" font FACE.",11" } else { unset xlabel }
    set label 1 KERNEL_NAME[p + 1] at graph 0,1 left offset 0,0.7 font FACE.":Bold,11" tc rgb INK
    set arrow 1 from X_LOW,1 to X_HIGH,1 nohead lw 1.4 lc rgb GREY back
    plot for [l = 0:int(LAYOUTS) - 1] 'layouts.tsv' index p * int(LAYOUTS) + l using ($1 * aside(l)):2:3:4 with yerrorbars pt 0 lw 1.4 dt 1 lc rgb colour(l), \
         for [l = 0:int(LAYOUTS) - 1] '' index p * int(LAYOUTS) + l using ($1 * aside(l)):2 with linespoints pt filled(l + 1) ps 0.9 lw 1.2 dt dash(l) lc rgb colour(l)
  }
}
unset multiplot

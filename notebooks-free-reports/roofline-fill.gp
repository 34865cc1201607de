# roofline-fill.gp - blocks of a kernel against its time, larger marks for longer prefixes; an arrow from a kernel that leaves SMs
# idle to the same work over all of them. Axes are 1 to 10,000 blocks and 1 us to 100 ms, wider where a point lies outside.
TITLE = "Fill: blocks against time"
FINDING = FIND_FILL
NOTE = MEASURED + MODELLED + BOUNDED > 0 ? "" : "This dataset holds no point with a time or a bound."
load 'page.gp'
if (!strlen(NOTE)) {
  KEY_COLUMNS = 4
  KEY_ROWS = KERNELS > 5 ? 3 : 2
  load 'key-open.gp'
  plot 2 notitle, \
    for [k = 0:int(KERNELS) - 1] keyentry with points pt filled(k) ps 1.1 lc rgb colour(k) title KERNEL_NAME[k + 1], \
    keyentry with points pt 7 ps 1 lc rgb GREY title MEASURED > 0 ? "measured" : "", \
    keyentry with points pt 6 ps 1 lw 1.4 lc rgb GREY title MODELLED > 0 ? "modelled" : "", \
    keyentry with points pt 2 ps 1 lw 1.6 lc rgb GREY title BOUNDED > 0 ? "bound, not a time" : "", \
    keyentry with lines lw 1.4 dt 2 lc rgb GREY title FILL_BEST > 0 ? "its work over all SMs" : ""
  load 'key-close.gp'
  set lmargin at screen 0.108
  set rmargin at screen 0.957
  set bmargin at screen 0.155
  set tmargin at screen 0.770 - (KEY_ROWS > 2 ? 0.03 : 0)
  set logscale xy 10
  set mxtics 10
  set mytics 10
  set format xy "%g"
  X_HIGH = larger(1e4, decade_above(FILL_MOST * 1.01))
  Y_LOW = TIME_LOW > 0 ? smaller(1.0, decade_below(TIME_LOW)) : 1.0
  Y_HIGH = TIME_HIGH > 0 ? larger(1e5, decade_above(TIME_HIGH * 1.01)) : 1e5
  set xrange [1:X_HIGH]
  set yrange [Y_LOW:Y_HIGH]
  set xlabel "blocks (log)"
  set ylabel "time (us, log)"
  if (FILL_SMS > 0) {
    set arrow 1 from FILL_SMS,Y_LOW to FILL_SMS,Y_HIGH nohead lw 1.8 lc rgb INK back
    set label 1 sprintf("%.0f SMs", FILL_SMS) at FILL_SMS,Y_HIGH left offset 0.6,-0.8 font FACE.",10"
  }
  side(k) = 1.05 ** (k - (KERNELS - 1) / 2.0)
  plot for [k = 0:int(KERNELS) - 1] 'fill.tsv' index k using ($1 * side(k)):3 with lines lw 0.8 lc rgb colour(k), \
       for [k = 0:int(KERNELS) - 1] '' index k using ($1 * side(k)):2 with lines lw 0.8 lc rgb colour(k), \
       for [k = 0:int(KERNELS) - 1] '' index k using ($1 * side(k)):3:4 with points pt hollow(k) ps variable lw 1.4 lc rgb colour(k), \
       for [k = 0:int(KERNELS) - 1] '' index k using ($1 * side(k)):2:4 with points pt filled(k) ps variable lc rgb colour(k), \
       for [k = 0:int(KERNELS) - 1] 'fill.tsv' index k using ($1 * side(k)):5:(0):(ABOVE_BOUND * $5) with vectors lw 1.4 lc rgb colour(k), \
       for [k = 0:int(KERNELS) - 1] '' index k using ($1 * side(k)):5 with points pt 2 ps 1 lw 1.6 lc rgb colour(k), \
       for [k = 0:int(KERNELS) - 1] 'fill-best.tsv' using ($5 == k ? $1 * side(k) : NaN):2:($3 - $1 * side(k)):($4 - $2) with vectors filled lw 1.4 dt 2 lc rgb colour(k)
}
unset multiplot

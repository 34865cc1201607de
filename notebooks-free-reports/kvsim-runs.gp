# kvsim-runs.gp - cumulative distribution of run length, weighted by rows, of the most scattered requests.
TITLE = "Run lengths of the most scattered requests"
FINDING = FIND_RUNS
NOTE = SCATTERED > 0 ? "" : "No request reached 1,024 rows: there is no distribution to draw."
load 'page.gp'
if (SCATTERED > 0) {
  set lmargin at screen 0.095
  set rmargin at screen 0.957
  set bmargin at screen 0.155
  set tmargin at screen 0.745
  set logscale x 10
  set mxtics 10
  set xrange [0.9:larger(100, decade_above(SCATTERED_LONGEST * 1.01))]
  set yrange [0:100]
  set format x "%.0s%c"
  set xlabel "run length (rows that lie side by side, log)"
  set ylabel "rows in runs of at most this length (%)"
  set key at screen 0.957,0.852 right top horizontal Left reverse maxcols 2 maxrows 2 width -8 spacing 1.1 samplen 2.6 font FACE.",9.5"
  PAGE_ROWS = TLB_BYTES / ROW_BYTES
  if (PAGE_ROWS < GPVAL_X_MAX || SCATTERED_LONGEST > PAGE_ROWS) {
    set arrow 1 from PAGE_ROWS, graph 0 to PAGE_ROWS, graph 1 nohead lw 1 dt 3 lc rgb GREY
    set label 1 sprintf("%.0f MiB page = %.0f rows", TLB_BYTES / 1048576, PAGE_ROWS) at PAGE_ROWS, graph 0.04 left rotate by 90 offset -0.8,0 font FACE.",10" tc rgb GREY
  }
  plot for [i = 1:int(SCATTERED)] 'scattered.tsv' index i - 1 using 1:($2 * 100) with steps \
         lw 2 dt dash(i - 1) lc rgb colour(i - 1) notitle, \
       for [i = 1:int(SCATTERED)] 'scattered.tsv' index i - 1 using 1:($3 * 100) with points \
         pt filled(i - 1) ps 0.9 lc rgb colour(i - 1) notitle, \
       for [i = 1:int(SCATTERED)] keyentry with linespoints lw 2 dt dash(i - 1) pt filled(i - 1) lc rgb colour(i - 1) \
         title SCATTERED_TITLE[i]
}
unset multiplot

# kvsim-milestones.gp - rows against runs at every milestone; the diagonals are lines of equal mean run.
TITLE = "Rows and runs of each request at its milestones"
FINDING = FIND_MILESTONES
NOTE = MILE_PREFILL + MILE_DECODE + MILE_END > 0 ? "" : "This dataset holds no milestone."
load 'page.gp'
if (MILE_PREFILL + MILE_DECODE + MILE_END > 0) {
  set lmargin at screen 0.095
  set rmargin at screen 0.957
  set bmargin at screen 0.155
  set tmargin at screen 0.795
  set logscale xy 10
  set mxtics 10
  set mytics 10
  X = larger(1e4, decade_above(MILE_ROWS * 1.01))
  Y = larger(1e2, decade_above(MILE_RUNS * 1.01))
  set xrange [1:X]
  set yrange [0.8:Y]
  set xlabel "rows of the request (log)"
  set ylabel "contiguous runs (log)"
  set key at screen 0.957,0.842 right top horizontal Left reverse width 2
  do for [e = 0:5] {
    R = 10.0 ** e
    set arrow 10 + e from R,1 to smaller(X, R * Y),smaller(Y, X / R) nohead lw 0.8 dt 3 lc rgb "#909090" back
    if (R * 3 < X) {
      set label 10 + e sprintf(R == 1 ? "mean run %.0f" : "%.0f", R) at R * 1.25,1.25 rotate by 40 left font FACE.",10" tc rgb GREY front
    }
  }
  plot 'milestones.tsv' index 1 using 1:2 with points pt 6 ps 0.7 lw 1.2 lc rgb "#0072B2" title sprintf("decode steps 2^k (%.0f)", MILE_DECODE), \
       '' index 0 using 1:2 with points pt 5 ps 0.8 lc rgb "#D55E00" title sprintf("end of prefill (%.0f)", MILE_PREFILL), \
       '' index 2 using 1:2 with points pt 2 ps 0.8 lw 1.6 lc rgb INK title sprintf("finish or end of trace (%.0f)", MILE_END)
}
unset multiplot

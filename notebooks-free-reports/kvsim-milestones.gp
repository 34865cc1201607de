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
  X_LOW = smaller(100, decade_below(larger(MILE_LEAST, 1)))
  set xrange [X_LOW:X]
  set yrange [0.8:Y]
  set format xy "%.0s%c"
  set xlabel "rows of the request (log)"
  set ylabel "contiguous runs (log)"
  set key at screen 0.957,0.842 right top horizontal Left reverse samplen 0.6 width -3 maxcols 3 maxrows 1 font FACE.",10"
  # A line of mean run R meets the frame at its upper end, where its label stands along it.
  SLOPE = atan2(0.64 * 526 / log10(Y / 0.8), 0.862 * 842 / log10(X / X_LOW)) * 180 / pi
  do for [e = 0:5] {
    R = 10.0 ** e
    if (R < X && smaller(X, R * Y) > 4 * X_LOW) {
      set arrow 10 + e from larger(R, X_LOW),larger(R, X_LOW) / R to smaller(X, R * Y),smaller(Y, X / R) nohead lw 0.8 dt 3 lc rgb "#909090" back
      TEXT = R == 1 ? "mean run 1 row" : gprintf("%.0s%c rows", R)
      set label 10 + e TEXT at smaller(X, R * Y) / 1.12,smaller(Y, X / R) / 1.12 \
        rotate by SLOPE right offset 0,0.55 font FACE.",10" tc rgb GREY front
    }
  }
  plot 'milestones.tsv' index 1 using 1:2 with points pt 6 ps 0.7 lw 1.2 lc rgb "#0072B2" title sprintf("decode steps 2^k (%.0f)", MILE_DECODE), \
       '' index 0 using 1:2 with points pt 5 ps 0.8 lc rgb "#D55E00" title sprintf("end of prefill (%.0f)", MILE_PREFILL), \
       '' index 2 using 1:2 with points pt 2 ps 0.8 lw 1.6 lc rgb INK title sprintf("finish or end of trace (%.0f)", MILE_END)
}
unset multiplot

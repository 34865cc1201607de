# whatif-series.gp - mean run and waste over the schedule, a curve a policy.
TITLE = "Mean run and capacity lost over time"
FINDING = FIND_SERIES
NOTE = SAMPLES > 0 && CURVES > 0 ? "" : "This dataset holds no sampled step."
load 'page.gp'
if (!strlen(NOTE)) {
  set lmargin at screen 0.120
  set rmargin at screen 0.957
  set tmargin at screen 0.800
  set bmargin at screen 0.485
  set format x ""
  set logscale y 10
  set mytics 10
  set format y "%.0s%c"
  set yrange [1:*]
  set ylabel "mean run (rows, log)" font FACE.",11"
  set key at screen 0.957,0.846 right top horizontal Left reverse samplen 2.4 width 0 maxrows 1 font FACE.",9.5"
  plot for [k = 1:int(CURVES)] 'over.tsv' index k - 1 using 1:2 with lines lw 1.7 dt dash(k - 1) lc rgb colour(k - 1) notitle, \
       for [k = 1:int(CURVES)] keyentry with lines lw 1.7 dt dash(k - 1) lc rgb colour(k - 1) title CURVE_NAME[k]
  unset logscale y
  unset key
  set tmargin at screen 0.455
  set bmargin at screen 0.155
  set format x "%g"
  set format y "%g"
  set mytics default
  set xlabel "scheduler step"
  set ylabel "slots without a token\n(% of the pool)" font FACE.",11" offset -1.6,0
  set yrange [0:larger(WASTE_MOST, 0.01) * 1.15]
  plot for [k = 1:int(CURVES)] 'over.tsv' index k - 1 using 1:3 with lines lw 1.7 dt dash(k - 1) lc rgb colour(k - 1)
}
unset multiplot

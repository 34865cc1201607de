# sweep-pools.gp - what the pool's size does under each policy: mean run, and tokens computed again.
TITLE = "What the pool's size does"
FINDING = FIND_POOLS
NOTE = CURVES > 0 ? "" : "This dataset holds no simulation."
load 'page.gp'
if (CURVES > 0) {
  KEY_COLUMNS = 7
  KEY_ROWS = 1
  load 'key-open.gp'
  plot 2 notitle, \
    for [s = 0:int(CURVES) - 1] keyentry with linespoints pt filled(s) ps 0.9 lw 1.4 dt dash(s) lc rgb colour(s) title CURVE_NAME[s + 1]
  load 'key-close.gp'
  set tmargin at screen 0.775
  set bmargin at screen 0.155
  set logscale x 2
  X_LOW = 2.0 ** floor(log10(POOL_LOW) / log10(2.0) - 0.05)
  X_HIGH = 2.0 ** ceil(log10(POOL_HIGH) / log10(2.0) + 0.05)
  set xrange [X_LOW / 1.001:X_HIGH * 1.001]
  binary(e) = e < 10 ? sprintf("%d", 2 ** e) : e < 20 ? sprintf("%dKi", 2 ** (e - 10)) : e < 30 ? sprintf("%dMi", 2 ** (e - 20)) : sprintf("%dGi", 2 ** (e - 30))
  set xtics ("" X_LOW)
  EACH = int(larger(1, ceil((log10(X_HIGH / X_LOW) / log10(2.0)) / 7)))
  do for [e = int(log10(X_LOW) / log10(2.0) + 0.5):int(log10(X_HIGH) / log10(2.0) + 0.5)] { if (e % EACH == 0) { set xtics add (binary(e) 2.0 ** e) } }
  set xlabel "pool (slots, log)"
  set lmargin at screen 0.095
  set rmargin at screen 0.500
  set logscale y 10
  set mytics 10
  set yrange [1:larger(10, decade_above(RUN_MOST * 1.01))]
  set format y "%.0s%c"
  set ylabel "mean run (rows, log)"
  plot for [s = 0:int(CURVES) - 1] 'pools.tsv' index s using 1:2 with linespoints pt filled(s) ps 0.9 lw 1.4 dt dash(s) lc rgb colour(s)
  unset logscale y
  set yrange [0:REFILLED_MOST * 1.1]
  set lmargin at screen 0.572
  set rmargin at screen 0.957
  set ylabel "tokens dropped and computed again"
  plot for [s = 0:int(CURVES) - 1] 'pools.tsv' index s using 1:3 with linespoints pt filled(s) ps 0.9 lw 1.4 dt dash(s) lc rgb colour(s)
}
unset multiplot

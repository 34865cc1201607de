# whatif-lengths.gp - cumulative distribution of run length, weighted by rows, a curve a policy.
TITLE = "Run lengths under each policy"
FINDING = FIND_LENGTHS
NOTE = LENGTH_ROWS > 0 && CURVES > 0 ? "" : "This dataset holds no detailed sample."
load 'page.gp'
if (!strlen(NOTE)) {
  set lmargin at screen 0.095
  set rmargin at screen 0.957
  set bmargin at screen 0.155
  set tmargin at screen 0.790
  set logscale x 10
  set mxtics 10
  set xrange [0.9:larger(100, decade_above(LENGTH_LONGEST * 1.01))]
  set yrange [0:100]
  set format x "%.0s%c"
  set xlabel "run length (rows that lie side by side, log)"
  set ylabel "rows in runs of at most this length (%)"
  set key at screen 0.957,0.840 right top horizontal Left reverse samplen 2.4 width 0 maxrows 1 font FACE.",9.5"
  plot for [k = 1:int(CURVES)] 'lengths.tsv' index k - 1 using 1:2 with steps lw 2 dt dash(k - 1) lc rgb colour(k - 1) notitle, \
       for [k = 1:int(CURVES)] keyentry with lines lw 2 dt dash(k - 1) lc rgb colour(k - 1) title CURVE_NAME[k]
}
unset multiplot

# roofline-compare.gp - after over before by prefix, a shape and colour a kernel, with the ratio's interval. Below 1 is faster.
TITLE = "After over before"
FINDING = FIND_COMPARE
NOTE = SERIES > 0 ? "" : "The two datasets have no point in common."
load 'page.gp'
if (SERIES > 0) {
  KEY_COLUMNS = 4
  KEY_ROWS = int((SERIES + 5) / 4)
  load 'key-open.gp'
  plot 2 notitle, \
       keyentry with lines lw 1.6 lc rgb GREY title "equal", keyentry with lines lw 0.9 dt 2 lc rgb GREY title "5 %", \
       for [s = 0:int(SERIES) - 1] keyentry with yerrorbars pt filled(s) ps 1 lw 1.2 lc rgb colour(s) title SERIES_NAME[s + 1]
  load 'key-close.gp'
  set lmargin at screen 0.085
  set rmargin at screen 0.957
  set tmargin at screen 0.84 - 0.035 * KEY_ROWS
  set bmargin at screen 0.155
  load 'roofline-prefix.gp'
  set logscale y 2
  set yrange [0.5:2] noextend
  set autoscale y
  set format y "%.3g"
  set xlabel "prefix (tokens, k = 1024; log)"
  set ylabel "time after / time before (log)"
  plot 1 with lines lw 1.6 lc rgb GREY notitle, 1.05 with lines lw 0.9 dt 2 lc rgb GREY notitle, 1 / 1.05 with lines lw 0.9 dt 2 lc rgb GREY notitle, \
       for [s = 0:int(SERIES) - 1] 'compare.tsv' index s using 1:2:3:4 with yerrorbars pt filled(s) ps 1 lw 1.2 lc rgb colour(s) notitle
}
unset multiplot

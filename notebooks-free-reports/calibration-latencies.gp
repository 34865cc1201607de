# calibration-latencies.gp - latencies on one axis, 1 ns to 100 us, with their figures beside it.
TITLE = LATENCIES_LEFT_OUT > 0 ? sprintf("Latencies: %.0f of %.0f, the longest left out", LATENCIES, LATENCIES + LATENCIES_LEFT_OUT) : "Latencies"
FINDING = FIND_LATENCIES
NOTE = LATENCIES > 0 ? "" : "This dataset holds no latency."
load 'page.gp'
if (LATENCIES > 0) {
  set lmargin at screen 0.165
  set rmargin at screen 0.480
  set bmargin at screen 0.155
  set tmargin at screen 0.795
  set logscale x 10
  set mxtics 10
  set xrange [1:1e5]
  set yrange [larger(LATENCIES, 4) + 0.6:0.4]
  set format x "%g"
  set xlabel "time of a step (ns, log)"
  TEXT = LATENCIES > 28 ? 7.5 : LATENCIES > 20 ? 8 : 9
  TEXT_FONT = sprintf("%s,%g", FACE, TEXT)
  SMALL_FONT = sprintf("%s,%g", FACE, smaller(TEXT, 8.5))
  set ytics font TEXT_FONT scale 0
  unset grid
  set grid xtics ytics
  PLACES = "0.545 0.598 0.705 0.720"
  set label 1 "median" at screen 0.545,0.820 right font FACE.":Bold,9.5" tc rgb GREY
  set label 2 "cycles" at screen 0.598,0.820 right font FACE.":Bold,9.5" tc rgb GREY
  set label 3 "95 % interval" at screen 0.705,0.820 right font FACE.":Bold,9.5" tc rgb GREY
  set label 4 "microbenchmark" at screen 0.720,0.820 left font FACE.":Bold,9.5" tc rgb GREY
  plot 'latencies.tsv' using (1):1:($3 - 1):(0) with vectors nohead lw 1 lc rgb "#bbbbbb", \
       '' using 3:1:4:5 with xerrorbars pt 0 lw 1.4 lc rgb INK, \
       '' using 3:1:ytic(2) with points pt 7 ps (LATENCIES > 20 ? 0.7 : 1) lc rgb "#0072B2"
  unset label
  unset logscale
  unset border
  unset tics
  unset grid
  unset xlabel
  set lmargin at screen 0.480
  set rmargin at screen 0.990
  set xrange [0.480:0.990]
  plot for [k = 1:3] 'latencies.tsv' using (word(PLACES, k) + 0):1:(stringcolumn(5 + k)) with labels right font TEXT_FONT, \
       '' using (word(PLACES, 4) + 0):1:(stringcolumn(9)) with labels left font SMALL_FONT
}
unset multiplot

# roofline-clocks.gp - what the GPU ran at while the points were measured, point by point; a stretch is one prefix, or one microbenchmark.
TITLE = "Clocks, power and temperature while measuring"
FINDING = FIND_CLOCKS
CLOCK_LABEL = CLOCK_ROTATE > 0 ? "rotate by 90 left" : "center"
NOTE = CLOCK_KNOWN > 0 ? "" : "The driver told no clock."
load 'page.gp'
if (!strlen(NOTE)) {
  set lmargin at screen 0.110
  set rmargin at screen 0.957
  set xrange [0.5:CLOCK_ROWS + 0.5]
  set style data steps
  set ytics font FACE.",9.5"
  set format x ""

  set tmargin at screen 0.800
  set bmargin at screen 0.600
  set yrange [0:CLOCK_MOST * 1.15]
  set ylabel "clock (MHz)" font FACE.",11"
  set key at screen 0.957,0.842 right top horizontal samplen 2.4 width 0 font FACE.",9.5" maxrows 1
  plot 'clocks.tsv' using 1:2 with linespoints pt 7 ps 0.4 lw 1.6 lc rgb "#0072B2" title "SM clock, lowest read", \
       '' using 1:3 with linespoints pt 4 ps 0.4 lw 1.6 dt 2 lc rgb INK title "memory clock", \
       '' using 1:($6 > 0 ? $2 : NaN) with points pt 2 ps 1.2 lw 2 lc rgb "#D55E00" title THROTTLED > 0 ? "throttled" : ""
  unset key
  set tmargin at screen 0.570
  set bmargin at screen 0.385
  set yrange [0:(POWER_MOST > 0 ? POWER_MOST : 1) * 1.15]
  set ylabel "power (W)" font FACE.",11"
  plot 'clocks.tsv' using 1:4 with linespoints pt 7 ps 0.4 lw 1.6 lc rgb "#D55E00"
  set tmargin at screen 0.355
  set bmargin at screen 0.165
  set yrange [0:(TEMPERATURE_MOST > 0 ? TEMPERATURE_MOST : 1) * 1.3]
  set ylabel "temperature (C)" font FACE.",11"
  set format x "%g"
  set xlabel "points in the order they were measured (dotted: ".CLOCK_STRETCH.")"
  TOP = (TEMPERATURE_MOST > 0 ? TEMPERATURE_MOST : 1) * 1.3
  FOOT_OF = CLOCK_ROTATE > 0 ? 0.5 * TOP : 0 # above the labels
  plot 'clocks-blocks.tsv' using 1:(FOOT_OF):(0):(TOP - FOOT_OF) with vectors nohead lw 0.8 dt 3 lc rgb GREY, \
       '' using 2:(CLOCK_ROTATE > 0 ? TOP * 0.03 : TOP * 0.92):3 with labels @CLOCK_LABEL font FACE.",9", \
       'clocks.tsv' using 1:5 with linespoints pt 7 ps 0.4 lw 1.6 lc rgb "#009E73"
}
unset multiplot

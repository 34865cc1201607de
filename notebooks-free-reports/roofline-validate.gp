# roofline-validate.gp - predicted against measured time, and what is left over. Lines: equal, 12 % and 30 % to either side.
# Axes are 10 us to 100 ms and 40 % to either side, wider only where a point lies outside.
TITLE = "Predicted against measured"
FINDING = FIND_VALIDATE
NOTE = SERIES > 0 ? "" : "No point of this dataset has a prediction."
load 'page.gp'
if (SERIES > 0) {
  KEY_COLUMNS = 5
  KEY_ROWS = SERIES > 2 ? int(larger(3, ceil((SERIES + 3) / 5.0))) : 1
  load 'key-open.gp'
  plot 2 notitle, \
    keyentry with lines lw 1.6 lc rgb GREY title "equal", keyentry with lines lw 0.9 dt 2 lc rgb GREY title "12 %", keyentry with lines lw 0.9 dt 3 lc rgb GREY title "30 %", \
    for [s = 0:int(SERIES) - 1] keyentry with points pt filled(s) ps 0.9 lc rgb colour(s) title SERIES_NAME[s + 1]
  load 'key-close.gp'
  set lmargin at screen 0.1
  set rmargin at screen 0.50
  set tmargin at screen 0.755 - 0.025 * larger(0, KEY_ROWS - 3)
  set bmargin at screen 0.155
  set logscale xy 10
  T_LOW = VALIDATE_LOW > 0 ? smaller(10.0, decade_below(VALIDATE_LOW)) : 10.0
  T_HIGH = VALIDATE_HIGH > 0 ? larger(1e5, decade_above(VALIDATE_HIGH * 1.01)) : 1e5
  set xrange [T_LOW:T_HIGH]
  set yrange [T_LOW:T_HIGH]
  set format xy "%g"
  set xlabel "measured (us, log)"
  set ylabel "predicted (us, log)"
  plot x with lines lw 1.6 lc rgb GREY notitle, 1.12 * x with lines lw 0.9 dt 2 lc rgb GREY notitle, x / 1.12 with lines lw 0.9 dt 2 lc rgb GREY notitle, \
       1.3 * x with lines lw 0.9 dt 3 lc rgb GREY notitle, x / 1.3 with lines lw 0.9 dt 3 lc rgb GREY notitle, \
       for [s = 0:int(SERIES) - 1] 'validate.tsv' index s using 1:4:5:6 with yerrorbars pt hollow(s) ps 0.9 lw 1 lc rgb colour(s) notitle
  unset logscale
  set logscale x 10
  set lmargin at screen 0.575
  set rmargin at screen 0.957
  R = larger(40, 10 * ceil(VALIDATE_WORST * 1.05 / 10))
  set yrange [-R:R]
  set ylabel "predicted over measured - 1 (%)"
  plot 0 with lines lw 1.6 lc rgb GREY notitle, 12 with lines lw 0.9 dt 2 lc rgb GREY notitle, -12 with lines lw 0.9 dt 2 lc rgb GREY notitle, \
       30 with lines lw 0.9 dt 3 lc rgb GREY notitle, -30 with lines lw 0.9 dt 3 lc rgb GREY notitle, \
       for [s = 0:int(SERIES) - 1] 'validate.tsv' index s using 1:7 with points pt filled(s) ps 0.9 lc rgb colour(s) notitle
}
unset multiplot

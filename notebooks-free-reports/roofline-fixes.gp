# roofline-fixes.gp - predicted against realised gain of a fix (time before / time after), and what is left over, a mark a fix.
# Axes are 1 to 16 and 40 % to either side, wider only where a point lies outside.
TITLE = "Gains of fixes: predicted against realised"
FINDING = FIND_FIXES
NOTE = FIXES > 0 ? "" : "No pair of kernels that differ by one fix has a prediction."
load 'page.gp'
if (FIXES > 0) {
  KEY_COLUMNS = 2
  KEY_ROWS = int(ceil((FIXES + 2) / 2.0))
  load 'key-open.gp'
  plot 2 notitle, \
    keyentry with lines lw 1.6 lc rgb GREY title "equal", keyentry with lines lw 0.9 dt 3 lc rgb GREY title "30 %", \
    for [k = 0:int(FIXES) - 1] keyentry with points pt filled(k) ps 0.9 lc rgb colour(k) title FIX_NAME[k + 1]
  load 'key-close.gp'
  set lmargin at screen 0.1
  set rmargin at screen 0.50
  set tmargin at screen 0.755 - 0.025 * larger(0, KEY_ROWS - 3)
  set bmargin at screen 0.155
  G_LOW = smaller(1.0, 2.0 ** floor(log10(GAINS_LOW * 0.99) / log10(2.0)))
  G_HIGH = larger(16.0, 2.0 ** ceil(log10(GAINS_HIGH * 1.01) / log10(2.0)))
  set logscale xy 2
  set xrange [G_LOW:G_HIGH]
  set yrange [G_LOW:G_HIGH]
  set format xy "%g"
  set xlabel "realised gain (measured before / after, log)"
  set ylabel "predicted gain (log)"
  plot x with lines lw 1.6 lc rgb GREY notitle, 1.3 * x with lines lw 0.9 dt 3 lc rgb GREY notitle, x / 1.3 with lines lw 0.9 dt 3 lc rgb GREY notitle, \
       for [k = 0:int(FIXES) - 1] 'gains.tsv' index k using 1:4:2:3 with xerrorbars pt hollow(k) ps 0.9 lw 1 lc rgb colour(k) notitle
  unset logscale
  set logscale x 2
  set lmargin at screen 0.575
  set rmargin at screen 0.957
  R = larger(40, 10 * ceil(GAINS_WORST * 1.05 / 10))
  set yrange [-R:R]
  set ylabel "predicted over realised - 1 (%)"
  plot 0 with lines lw 1.6 lc rgb GREY notitle, 30 with lines lw 0.9 dt 3 lc rgb GREY notitle, -30 with lines lw 0.9 dt 3 lc rgb GREY notitle, \
       for [k = 0:int(FIXES) - 1] 'gains.tsv' index k using 1:5 with points pt filled(k) ps 0.9 lc rgb colour(k) notitle
}
unset multiplot

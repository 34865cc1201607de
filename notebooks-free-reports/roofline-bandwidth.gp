# roofline-bandwidth.gp - useful KV bytes over time against prefix, under the ceilings. The bandwidth axis is five decades
# below the highest ceiling, wider only where a point lies outside.
TITLE = "Effective bandwidth against prefix"
FINDING = FIND_BANDWIDTH
NOTE = SERIES == 0 ? "This dataset holds no point." : AT_ZERO > 0 && AT_ZERO == POINTS ? "Every point has prefix 0, which has no place on a log axis.\nThe ladder shows their times." : ""
load 'page.gp'
if (!strlen(NOTE)) {
  load 'roofline-key.gp'
  if (ALIASED > 0) { set label 903 sprintf("%.0f runs on slots aliased to\na few rows read no KV and\nare not drawn", ALIASED) at screen 0.757,0.305 left font FACE.",9" tc rgb GREY }
  load 'roofline-prefix.gp'
  TOP = BW_COUNT > 0 ? BW_VALUE[1] : BANDWIDTH_HIGH > 0 ? BANDWIDTH_HIGH : 1e4
  if (BW_COUNT > 1) { do for [k = 2:int(BW_COUNT)] { TOP = larger(TOP, BW_VALUE[k]) } }
  Y_HIGH = decade_above(TOP * 1.2)
  Y_LOW = BANDWIDTH_LOW > 0 ? smaller(Y_HIGH / 1e5, decade_below(BANDWIDTH_LOW)) : Y_HIGH / 1e5
  if (BANDWIDTH_HIGH > Y_HIGH) { Y_HIGH = decade_above(BANDWIDTH_HIGH * 1.2) }
  set logscale y 10
  set mytics 10
  set yrange [Y_LOW:Y_HIGH]
  set format y "%g"
  set xlabel "prefix (tokens, k = 1024; log)"
  set ylabel "effective bandwidth (useful KV, GB/s, log)"
  if (BW_COUNT > 0) { do for [k = 1:int(BW_COUNT)] {
    set arrow 20 + k from X_LOW,BW_VALUE[k] to X_HIGH,BW_VALUE[k] nohead lw 2 dt roof_dash(k) lc rgb INK back
    set label 20 + k BW_TITLE[k] at X_LOW * 1.1,BW_VALUE[k] left offset 0,(k == 1 ? -0.65 : 0.65) font FACE.",10" front
  } }
  plot for [s = 0:int(SERIES) - 1] 'points.tsv' index s using 1:12 with points pt 1 ps 0.9 lw 1 lc rgb GREY, \
       for [s = 0:int(SERIES) - 1] '' index s using 1:11 with linespoints pt hollow(SERIES_KERNEL[s + 1]) ps 1 \
         lw 1.4 dt dash(SERIES_VARIANT[s + 1]) lc rgb colour(SERIES_KERNEL[s + 1]), \
       for [s = 0:int(SERIES) - 1] '' index s using 1:8:9:10 with yerrorbars pt 0 lw 1.2 dt 1 lc rgb colour(SERIES_KERNEL[s + 1]), \
       for [s = 0:int(SERIES) - 1] '' index s using 1:8 with linespoints pt filled(SERIES_KERNEL[s + 1]) ps 1 \
         lw 1.8 dt dash(SERIES_VARIANT[s + 1]) lc rgb colour(SERIES_KERNEL[s + 1]), \
       for [s = 0:int(SERIES) - 1] '' index s using 1:22:(0):(BELOW_BOUND * $22) with vectors lw 1.4 lc rgb colour(SERIES_KERNEL[s + 1]), \
       for [s = 0:int(SERIES) - 1] '' index s using 1:22 with points pt 2 ps 1 lw 1.6 lc rgb colour(SERIES_KERNEL[s + 1]), \
       @KERNEL_KEY, @VARIANT_READ_KEY, @STATUS_KEY
}
unset multiplot

# roofline-roof.gp - the roofline: useful FLOP per useful byte against useful FLOP/s. Axes are whole decades set by the
# ceilings (five below the highest roof, two on each side of the ridge), wider only where a point lies outside.
TITLE = "Roofline"
FINDING = FIND_ROOFLINE
NOTE = POINTS > 0 || FL_COUNT > 0 || BW_COUNT > 0 ? "" : "This dataset holds no point and no ceiling."
load 'page.gp'
if (!strlen(NOTE)) {
  load 'roofline-key.gp'
  CENTRE = RIDGE > 0 ? 10.0 ** floor(log10(RIDGE) + 0.5) : 100.0
  X_LOW = INTENSITY_LOW > 0 ? smaller(CENTRE / 100, decade_below(INTENSITY_LOW)) : CENTRE / 100
  X_HIGH = INTENSITY_HIGH > 0 ? larger(CENTRE * 100, decade_above(INTENSITY_HIGH * 1.3)) : CENTRE * 100
  TOP = FL_COUNT > 0 ? FL_VALUE[1] : RATE_HIGH > 0 ? RATE_HIGH : 1000.0
  if (FL_COUNT > 1) { do for [k = 2:int(FL_COUNT)] { TOP = larger(TOP, FL_VALUE[k]) } }
  Y_HIGH = decade_above(TOP * 1.3)
  Y_LOW = RATE_LOW > 0 ? smaller(Y_HIGH / 1e5, decade_below(RATE_LOW)) : Y_HIGH / 1e5
  if (RATE_HIGH > Y_HIGH) { Y_HIGH = decade_above(RATE_HIGH * 1.3) }
  set logscale xy 10
  set mxtics 10
  set mytics 10
  set xrange [X_LOW:X_HIGH]
  set yrange [Y_LOW:Y_HIGH]
  set format xy "%g"
  set xlabel "arithmetic intensity (useful FLOP per useful byte, log)"
  set ylabel "useful arithmetic (TFLOP/s, log)"
  # The slope of a bandwidth roof on paper, for its label.
  SLOPE = atan2(0.69 * 526 / log10(Y_HIGH / Y_LOW), 0.627 * 842 / log10(X_HIGH / X_LOW)) * 180 / pi
  if (BW_COUNT > 0) { do for [k = 1:int(BW_COUNT)] {
    set label 20 + k BW_TITLE[k] at X_LOW * 1.25,BW_VALUE[k] * 1e-3 * X_LOW * 1.25 left rotate by SLOPE offset (k == 1 ? 0.9 : -0.5),(k == 1 ? -0.7 : 0.9) font FACE.",10" front
    END = smaller(X_HIGH, (FL_COUNT > 0 ? TOP : Y_HIGH) / (BW_VALUE[k] * 1e-3))
    set arrow 20 + k from X_LOW,BW_VALUE[k] * 1e-3 * X_LOW to END,BW_VALUE[k] * 1e-3 * END nohead lw 2.2 dt roof_dash(k) lc rgb INK back
  } }
  FASTEST = BW_COUNT > 1 ? larger(BW_VALUE[1], BW_VALUE[2]) : BW_VALUE[1]
  if (FL_COUNT > 0) { do for [k = 1:int(FL_COUNT)] {
    set label 30 + k FL_TITLE[k] at X_HIGH / 1.08,FL_VALUE[k] right offset (k > 2 ? -28 * (k - 2) : 0),(k == 1 ? -0.65 : 0.65) font FACE.",10" front
    set arrow 30 + k from larger(X_LOW, BW_COUNT > 0 ? FL_VALUE[k] / (FASTEST * 1e-3) : X_LOW),FL_VALUE[k] to X_HIGH,FL_VALUE[k] \
      nohead lw 2.2 dt roof_dash(k) lc rgb INK back
  } }
  if (RIDGE > 0) {
    set arrow 1 from RIDGE,Y_LOW to RIDGE,TOP nohead lw 1 dt 3 lc rgb GREY back
    set label 1 sprintf("ridge %.0f FLOP/B", RIDGE) at RIDGE,Y_LOW right offset -0.6,0.8 font FACE.",10" tc rgb GREY front
  }
  side(k) = 1.09 ** (k - (KERNELS - 1) / 2.0)
  plot for [s = 0:int(SERIES) - 1] 'points.tsv' index s using ($2 * side(SERIES_KERNEL[s + 1])):7 with points \
         pt 1 ps 0.9 lw 1 lc rgb GREY, \
       for [s = 0:int(SERIES) - 1] '' index s using ($2 * side(SERIES_KERNEL[s + 1])):6 with lines \
         lw 0.8 dt dash(SERIES_VARIANT[s + 1]) lc rgb colour(SERIES_KERNEL[s + 1]), \
       for [s = 0:int(SERIES) - 1] '' index s using ($2 * side(SERIES_KERNEL[s + 1])):6:20 with points \
         pt hollow(SERIES_KERNEL[s + 1]) ps variable lw 1.4 lc rgb colour(SERIES_KERNEL[s + 1]), \
       for [s = 0:int(SERIES) - 1] '' index s using ($2 * side(SERIES_KERNEL[s + 1])):3 with lines \
         lw 0.8 dt dash(SERIES_VARIANT[s + 1]) lc rgb colour(SERIES_KERNEL[s + 1]), \
       for [s = 0:int(SERIES) - 1] '' index s using ($2 * side(SERIES_KERNEL[s + 1])):3:20 with points \
         pt filled(SERIES_KERNEL[s + 1]) ps variable lc rgb colour(SERIES_KERNEL[s + 1]), \
       for [s = 0:int(SERIES) - 1] '' index s using ($2 * side(SERIES_KERNEL[s + 1])):21:(0):(BELOW_BOUND * $21) with vectors \
         lw 1.4 lc rgb colour(SERIES_KERNEL[s + 1]), \
       for [s = 0:int(SERIES) - 1] '' index s using ($2 * side(SERIES_KERNEL[s + 1])):21 with points pt 2 ps 1 lw 1.6 lc rgb colour(SERIES_KERNEL[s + 1]), \
       @KERNEL_KEY, @VARIANT_KEY, @STATUS_KEY
}
unset multiplot

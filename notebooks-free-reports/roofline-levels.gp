# roofline-levels.gp - the roofline by level: executed flops over the bytes that crossed DRAM, L2 and link, a string of three marks
# a kernel, under the roof of each level. Axes as the roofline's: whole decades set by the ceilings.
TITLE = "Roofline by level: DRAM, L2, link"
FINDING = FIND_LEVELS
NOTE = LEVEL_KERNEL_COUNT > 0 && LEVEL_HIGH > 0 ? "" : "This dataset holds no point with a time and bytes."
load 'page.gp'
if (!strlen(NOTE)) {
  LEVEL_SPOKEN = "DRAM L2 link"
  level_dash(l) = l == 3 ? 4 : l
  TOP = LEVEL_MMA > 0 ? LEVEL_MMA : 1000.0
  Y_HIGH = decade_above(TOP * 1.3)
  Y_LOW = LEVEL_LEAST > 0 ? smaller(Y_HIGH / 1e4, decade_below(LEVEL_LEAST)) : Y_HIGH / 1e4
  X_LOW = smaller(1.0, decade_below(LEVEL_LOW))
  X_HIGH = larger(1e4, decade_above(LEVEL_HIGH * 1.3))
  set key at screen 0.748,0.845 left top vertical Left reverse samplen 2.4 spacing 1.3 width 0 font FACE.",10"
  set lmargin at screen 0.108
  set rmargin at screen 0.735
  set bmargin at screen 0.155
  set tmargin at screen 0.845
  set logscale xy 10
  set mxtics 10
  set mytics 10
  set format xy "%g"
  set xrange [X_LOW:X_HIGH]
  set yrange [Y_LOW:Y_HIGH]
  set xlabel "executed flops a byte moved at the level (FLOP/B, log)"
  set ylabel "executed arithmetic (TFLOP/s, log)"
  do for [l = 1:3] {
    if (LEVEL_ROOF[l] > 0) {
      END = smaller(X_HIGH, TOP / LEVEL_ROOF[l])
      START = larger(X_LOW, Y_LOW / LEVEL_ROOF[l])
      set arrow 20 + l from START,LEVEL_ROOF[l] * START to END,LEVEL_ROOF[l] * END nohead lw 2 dt level_dash(l) lc rgb INK back
    }
  }
  if (LEVEL_MMA > 0) {
    MOST = 0
    do for [l = 1:3] { if (LEVEL_ROOF[l] > MOST) { MOST = LEVEL_ROOF[l] } }
    set arrow 30 from (MOST > 0 ? TOP / MOST : X_LOW),TOP to X_HIGH,TOP nohead lw 2.4 lc rgb INK back
    set label 30 sprintf("mma %.0f TFLOP/s", TOP) at X_HIGH / 1.08,TOP right offset 0,0.65 font FACE.",10"
  }
  plot for [k = 0:int(LEVEL_KERNEL_COUNT) - 1] 'levels.tsv' index k using 2:5 with lines lw 1 dt 3 lc rgb colour(LEVEL_KERNEL_COLOUR[k + 1]), \
       for [k = 0:int(LEVEL_KERNEL_COUNT) - 1] for [l = 1:3] '' index k using ($1 == l ? $2 : NaN):3 with points pt filled(l - 1) ps 1.3 lc rgb colour(LEVEL_KERNEL_COLOUR[k + 1]), \
       for [k = 0:int(LEVEL_KERNEL_COUNT) - 1] for [l = 1:3] '' index k using ($1 == l ? $2 : NaN):4 with points pt hollow(l - 1) ps 1.3 lw 1.6 lc rgb colour(LEVEL_KERNEL_COLOUR[k + 1]), \
       for [k = 0:int(LEVEL_KERNEL_COUNT) - 1] '' index k using 2:5:(sprintf("%d", k + 1)) every ::0::0 with labels left offset 0.8,0.5 font FACE.":Bold,9.5", \
       for [k = 0:int(LEVEL_KERNEL_COUNT) - 1] keyentry with lines lw 3 lc rgb colour(LEVEL_KERNEL_COLOUR[k + 1]) title sprintf("%d  %s", k + 1, LEVEL_KERNEL[k + 1]), \
       for [l = 1:3] keyentry with linespoints pt filled(l - 1) ps 1.1 lw 2 dt level_dash(l) lc rgb GREY title LEVEL_ROOF[l] > 0 ? sprintf("%s, roof %.3g TB/s", word(LEVEL_SPOKEN, l), LEVEL_ROOF[l]) : word(LEVEL_SPOKEN, l).", roof not known", \
       keyentry with points pt 7 ps 1 lc rgb GREY title MEASURED > 0 ? "measured" : "", \
       keyentry with points pt 6 ps 1 lw 1.4 lc rgb GREY title LEVEL_STRUCTURE > 0 ? "bytes by structure" : MEASURED < POINTS && MODELLED > 0 ? "modelled" : ""
}
unset multiplot

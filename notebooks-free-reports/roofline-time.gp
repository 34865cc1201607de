# roofline-time.gp - a panel a kernel: time against prefix with its floor (T0), its floor with the work it really does
# (T2) and with its placement (T4) where the model covers them. All panels share their axes: 1 us to 100 ms, wider only
# where a point lies outside.
TITLE = KERNELS > 8 ? sprintf("Time against prefix: the first 8 of %.0f kernels", KERNELS) : "Time against prefix, with each kernel's floor"
FINDING = FIND_TIME
NOTE = SERIES == 0 ? "This dataset holds no point." : AT_ZERO > 0 && AT_ZERO == POINTS ? "Every point has prefix 0, which has no place on a log axis.\nThe ladder shows their times." : ""
load 'page.gp'
if (!strlen(NOTE)) {
  PANELS = smaller(int(KERNELS), 8)
  ACROSS = PANELS <= 1 ? 1 : PANELS <= 4 ? 2 : PANELS <= 6 ? 3 : 4
  DOWN = int(ceil(PANELS / (ACROSS * 1.0)))
  Y_LOW = TIME_LOW > 0 ? smaller(1.0, decade_below(TIME_LOW)) : 1.0
  Y_HIGH = TIME_HIGH > 0 ? larger(1e5, decade_above(TIME_HIGH * 1.01)) : 1e5

  ENTRIES = 1 + (MEASURED > 0) + (MODELLED > 0) + (BOUNDED > 0) + (T2_KNOWN > 0) + (T4_KNOWN > 0) + int(VARIANTS)
  COLUMNS = ENTRIES <= 8 ? 4 : 5
  ROWS = int(larger(2, ceil(ENTRIES / (COLUMNS * 1.0))))

  # The key is a plot of its own across the page.
  set margins 0, 0, 0, 0
  set border 0
  unset tics
  unset grid
  set xrange [0:1]
  set yrange [0:1]
  set key at screen 0.957,0.858 right top horizontal Left reverse samplen 2.6 width 0 font FACE.(COLUMNS > 4 ? ",8.5" : ",10") maxrows ROWS maxcols COLUMNS
  plot 2 notitle, \
    keyentry with points pt 7 ps 1 lc rgb INK title MEASURED > 0 ? "measured" : "", \
    keyentry with points pt 6 ps 1 lw 1.4 lc rgb INK title MODELLED > 0 ? "modelled" : "", \
    keyentry with points pt 2 ps 1 lw 1.6 lc rgb INK title BOUNDED > 0 ? "bound, not a time" : "", \
    keyentry with lines lw 2.4 dt 1 lc rgb "#9a9a9a" title "floor T0", \
    keyentry with lines lw 1.2 dt 2 lc rgb GREY title T2_KNOWN > 0 ? "T2: with its own work" : "", \
    keyentry with lines lw 1.2 dt 3 lc rgb GREY title T4_KNOWN > 0 ? "T4: and placement" : "", \
    for [v = 0:int(VARIANTS) - 1] keyentry with lines lw 1.8 dt dash(v) lc rgb INK title VARIANT_NAME[v + 1]
  unset key
  set border 3
  set ytics nomirror out textcolor rgb INK
  set grid
  PREFIX_LABELS = ACROSS == 1 ? 12 : ACROSS == 2 ? 7 : ACROSS == 3 ? 5 : 4
  load 'roofline-prefix.gp'
  set xtics font FACE.",9.5"
  set ytics font FACE.",9.5" scale 0.6
  set logscale y 10
  set mytics 10
  set yrange [Y_LOW:Y_HIGH]
  set format y "%g"
  LEFT = 0.095; RIGHT = 0.957; HIGH = 0.760 - 0.026 * (ROWS - 2); LOW = 0.160
  GAP_X = 0.022; GAP_Y = 0.105
  W = (RIGHT - LEFT - (ACROSS - 1) * GAP_X) / ACROSS
  H = (HIGH - LOW - (DOWN - 1) * GAP_Y) / DOWN
  # A level at one prefix is drawn half an octave to either side.
  SIDE = 2 ** 0.5
  level(s, p, y) = SERIES_KERNEL[s + 1] == p && SERIES_DOT[s + 1] > 0 ? y : NaN
  do for [p = 0:PANELS - 1] {
    C = p % ACROSS
    R = p / ACROSS
    set lmargin at screen LEFT + C * (W + GAP_X)
    set rmargin at screen LEFT + C * (W + GAP_X) + W
    set tmargin at screen HIGH - R * (H + GAP_Y)
    set bmargin at screen HIGH - R * (H + GAP_Y) - H
    if (C == 0) { set format y "%g"; set ylabel "time (us, log)" } else { set format y ""; unset ylabel }
    if (p + ACROSS >= PANELS) { set xlabel "prefix (tokens, k = 1024; log)" font FACE.",11" } else { unset xlabel }
    set label 1 KERNEL_NAME[p + 1] at graph 0,1 left offset 0,0.7 font FACE.":Bold,11" tc rgb colour(p)
    plot for [s = 0:int(SERIES) - 1] 'points.tsv' index s using 1:(SERIES_KERNEL[s + 1] == p ? $17 : NaN) with lines \
           lw 2.4 dt 1 lc rgb "#9a9a9a", \
         for [s = 0:int(SERIES) - 1] '' index s using 1:(SERIES_KERNEL[s + 1] == p ? $18 : NaN) with lines lw 1.2 dt 2 lc rgb GREY, \
         for [s = 0:int(SERIES) - 1] '' index s using 1:(SERIES_KERNEL[s + 1] == p ? $19 : NaN) with lines lw 1.2 dt 3 lc rgb GREY, \
         for [s = 0:int(SERIES) - 1] '' index s using ($1 / SIDE):(level(s, p, $17)):($1 * (SIDE - 1 / SIDE)):(0) with vectors nohead \
           lw 2.4 dt 1 lc rgb "#9a9a9a", \
         for [s = 0:int(SERIES) - 1] '' index s using ($1 / SIDE):(level(s, p, $18)):($1 * (SIDE - 1 / SIDE)):(0) with vectors nohead lw 1.2 dt 2 lc rgb GREY, \
         for [s = 0:int(SERIES) - 1] '' index s using ($1 / SIDE):(level(s, p, $19)):($1 * (SIDE - 1 / SIDE)):(0) with vectors nohead lw 1.2 dt 3 lc rgb GREY, \
         for [s = 0:int(SERIES) - 1] '' index s using 1:(SERIES_KERNEL[s + 1] == p ? $17 : NaN) with points pt 1 ps 0.5 lc rgb "#9a9a9a", \
         for [s = 0:int(SERIES) - 1] '' index s using 1:(SERIES_KERNEL[s + 1] == p ? $16 : NaN) with linespoints \
           pt hollow(p) ps 0.9 lw 1.2 dt dash(SERIES_VARIANT[s + 1]) lc rgb colour(p), \
         for [s = 0:int(SERIES) - 1] '' index s using 1:(SERIES_KERNEL[s + 1] == p ? $13 : NaN):14:15 with yerrorbars \
           pt 0 lw 1.2 dt 1 lc rgb colour(p), \
         for [s = 0:int(SERIES) - 1] '' index s using 1:(SERIES_KERNEL[s + 1] == p ? $13 : NaN) with linespoints \
           pt filled(p) ps 0.9 lw 1.8 dt dash(SERIES_VARIANT[s + 1]) lc rgb colour(p), \
         for [s = 0:int(SERIES) - 1] '' index s using 1:(SERIES_KERNEL[s + 1] == p ? $23 : NaN):(0):(ABOVE_BOUND * $23) with vectors \
           lw 1.4 lc rgb colour(p), \
         for [s = 0:int(SERIES) - 1] '' index s using 1:(SERIES_KERNEL[s + 1] == p ? $23 : NaN) with points pt 2 ps 0.9 lw 1.6 lc rgb colour(p), \
         2e-30 notitle
  }
}
unset multiplot

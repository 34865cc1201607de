# roofline-step.gp - a decode step by context, a panel a kernel: the rest of the step by component and verify attention on top,
# with the model's interval and the tokens a second; a dash where the step would be with attention at its floor. STEP_EACH kernels
# a page: the page's number says which.
FIRST = (PAGE - 2) * int(STEP_EACH)
PANELS = smaller(int(SERIES) - FIRST, int(STEP_EACH))
TITLE = STEP_EACH < SERIES ? sprintf("A decode step by context: kernels %d to %d of %.0f", FIRST + 1, FIRST + PANELS, SERIES) : \
  "A decode step by context"
FINDING = FIND_STEP
NOTE = SERIES > 0 ? "" : "This dataset holds no point."
load 'page.gp'
if (SERIES > 0) {
  PART_COLOURS = "#0072B2 #bcdcf0 #009E73 #E69F00 #CC79A7 #d9d9d9"
  KEY_COLUMNS = 4
  KEY_ROWS = int(ceil((PARTS + 4) / 4.0))
  load 'key-open.gp'
  plot 2 notitle, \
    for [k = 1:int(PARTS)] keyentry with boxes fs solid 1 border lc rgb INK fc rgb word(PART_COLOURS, 1 + (k - 1) % 6) title PART_NAME[k], \
    keyentry with boxes fs solid 1 border lc rgb INK fc rgb "#D55E00" title "verify attention", \
    keyentry with yerrorbars pt 0 lw 1.2 lc rgb INK title "interval", \
    keyentry with points pt 1 ps 1.2 lw 2 lc rgb INK title "attention at its floor", \
    keyentry with dots lc rgb "#ffffff" title "above: tokens/s"
  load 'key-close.gp'
  TOTAL = 3 + int(PARTS)
  ACROSS = PANELS <= 3 ? PANELS : PANELS == 4 ? 2 : 3
  DOWN = int(ceil(PANELS / (ACROSS * 1.0)))
  TURNED = STEP_LETTERS > 4 ? 1 : 0 # labels that would run into each other
  LEFT = 0.080; RIGHT = 0.957; HIGH = 0.750 - 0.026 * (KEY_ROWS - 1); LOW = 0.160 + 0.025 * TURNED
  GAP_X = 0.050; GAP_Y = 0.095 + 0.025 * TURNED
  W = (RIGHT - LEFT - (ACROSS - 1) * GAP_X) / ACROSS
  H = (HIGH - LOW - (DOWN - 1) * GAP_Y) / DOWN
  set style fill solid 1 border lc rgb INK
  set boxwidth 0.7
  set yrange [0:*]
  set xtics scale 0 font FACE.",9.5"
  set ytics font FACE.",9.5" scale 0.6
  if (TURNED) { set xtics rotate by 30 right }
  do for [p = 0:PANELS - 1] {
    C = p % ACROSS
    R = p / ACROSS
    set lmargin at screen LEFT + C * (W + GAP_X)
    set rmargin at screen LEFT + C * (W + GAP_X) + W
    set tmargin at screen HIGH - R * (H + GAP_Y)
    set bmargin at screen HIGH - R * (H + GAP_Y) - H
    stats 'step.tsv' index FIRST + p using 1 nooutput
    set xrange [-0.6:STATS_records - 0.4]
    set offsets 0, 0, graph 0.08, 0 # room for the labels
    # A label is some 30 pt wide; where bars are narrower some are left out, the longest context's last of all.
    EACH = int(ceil(30.0 * STATS_records / (W * 842)))
    shown(i) = (STATS_records - 1 - int(i)) % EACH == 0
    if (p + ACROSS >= PANELS) { set xlabel "context (tokens, k = 1024)" font FACE.",11" } else { unset xlabel }
    if (C == 0) { set ylabel "step (ms)" font FACE.",11" } else { unset ylabel }
    set label 1 STEP_NAME[FIRST + p + 1] at graph 0,1 left offset 0,0.8 font FACE.":Bold,11"
    plot 'step.tsv' index FIRST + p using 0:TOTAL:xtic(2) with boxes fc rgb "#D55E00", \
         for [k = int(PARTS):1:-1] '' index FIRST + p using 0:(column(2 + k)) with boxes fc rgb word(PART_COLOURS, 1 + (k - 1) % 6), \
         '' index FIRST + p using 0:(column(TOTAL + 1)):(0):(column(TOTAL + 2) - column(TOTAL + 1)) with vectors heads size screen 0.004,90 \
           lw 1.2 lc rgb INK, \
         '' index FIRST + p using 0:(column(TOTAL + 4)) with points pt 1 ps 1.2 lw 2 lc rgb INK, \
         '' index FIRST + p using 0:(shown($0) ? column(TOTAL + 2) : NaN):(stringcolumn(TOTAL + 3)) with labels offset 0,0.7 font FACE.",9"
  }
}
unset multiplot

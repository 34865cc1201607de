# roofline-step.gp - a decode step by context, a panel a kernel: the rest of the step by component and verify attention on top,
# with the model's interval and the tokens a second; a dash where the step would be with attention at its floor.
TITLE = "A decode step by context"
FINDING = FIND_STEP
NOTE = SERIES > 0 ? "" : "This dataset holds no point."
load 'page.gp'
if (SERIES > 0) {
  PANELS = smaller(int(SERIES), 4)
  W = (0.957 - 0.075 - (PANELS - 1) * 0.05) / PANELS
  TOTAL = 3 + int(PARTS)
  set style fill solid 1 border lc rgb INK
  set boxwidth 0.7
  do for [p = 0:PANELS - 1] {
    set lmargin at screen 0.075 + p * (W + 0.05)
    set rmargin at screen 0.075 + p * (W + 0.05) + W
    set tmargin at screen 0.79
    set bmargin at screen STEP_LETTERS > 4 ? 0.185 : 0.155
    stats 'step.tsv' index p using 1 nooutput
    set xrange [-0.6:STATS_records - 0.4]
    set yrange [0:*]
    set offsets 0, 0, graph (p == 0 && STATS_records < 5 ? 0.4 : 0), 0 # room for the key
    set xtics scale 0
    # Labels that would run into each other are turned.
    if (STEP_LETTERS > 4) { set xtics rotate by 30 right font FACE.",10" }
    set xlabel "context (tokens, k = 1024)"
    if (p == 0) { set ylabel "step (ms)" } else { unset ylabel }
    set label 1 SERIES_NAME[p + 1] at graph 0,1 left offset 0,0.9 font FACE.":Bold,11"
    set key top left Left reverse samplen 1.6 font FACE.",10"
    if (p > 0) { unset key }
    plot 'step.tsv' index p using 0:TOTAL:xtic(2) with boxes fc rgb "#D55E00" title "verify attention", \
         for [k = int(PARTS):1:-1] '' index p using 0:(column(2 + k)) with boxes fc rgb word("#0072B2 #bcdcf0 #009E73 #E69F00 #CC79A7 #d9d9d9", 1 + (k - 1) % 6) title PART_NAME[k], \
         '' index p using 0:TOTAL:(column(TOTAL + 1)):(column(TOTAL + 2)) with yerrorbars pt 0 lw 1.2 lc rgb INK title "interval", \
         '' index p using 0:(column(TOTAL + 4)) with points pt 1 ps 1.2 lw 2 lc rgb INK title "with attention at its floor", \
         '' index p using 0:(column(TOTAL + 2)):(stringcolumn(TOTAL + 3)) with labels offset 0,0.7 font FACE.",9" notitle
  }
}
unset multiplot

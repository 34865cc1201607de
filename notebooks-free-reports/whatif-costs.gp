# whatif-costs.gp - what a policy costs against what it saves, a panel a GPU; on the line both are equal.
TITLE = "Cost against benefit"
FINDING = FIND_COSTS
NOTE = COST_ROWS > 0 ? "" : "This dataset holds no cost."
load 'page.gp'
if (COST_ROWS > 0) {
  LOW = COST_LOW / 5
  HIGH = decade_above(COST_HIGH * 6)
  PANELS = int(GPUS)
  at(share) = LOW * (HIGH / LOW) ** share
  W = (0.957 - 0.095 - (PANELS - 1) * 0.04) / PANELS

  # The key is a plot of its own across the page.
  set margins 0, 0, 0, 0
  set border 0
  unset tics
  unset grid
  set xrange [0:1]
  set yrange [0:1]
  set key at screen 0.957,0.862 right top horizontal Left reverse samplen 0.6 width 0 maxcols 4 maxrows 1 font FACE.",10"
  plot 2 notitle, \
    keyentry with points pt 7 ps 1.1 lc rgb "#009E73" title "pays", \
    keyentry with points pt 8 ps 1.1 lw 1.6 lc rgb "#0072B2" title sprintf("gains less than %g %%", 100 * EFFECT), \
    keyentry with points pt 6 ps 1.1 lw 1.6 lc rgb "#D55E00" title "does not", \
    keyentry with points pt 2 ps 1.1 lw 1.6 lc rgb INK title "bound (not a policy)"
  unset key
  set border 3
  set tics nomirror out scale 0.6
  set grid
  do for [p = 0:PANELS - 1] {
    set lmargin at screen 0.095 + p * (W + 0.04)
    set rmargin at screen 0.095 + p * (W + 0.04) + W
    set bmargin at screen 0.155
    set tmargin at screen 0.790
    set logscale xy 10
    set mxtics 10
    set mytics 10
    set xrange [LOW:HIGH]
    set yrange [LOW:HIGH]
    set format xy "%g"
    set xtics nomirror out ("0" COST_LOW / 3)
    set ytics nomirror out ("0" COST_LOW / 3)
    EVERY = int(ceil(46 * log10(HIGH / LOW) / (W * 842)))
    do for [e = floor(log10(COST_LOW) + 0.001):ceil(log10(HIGH) - 0.001)] {
      if (int(ceil(log10(HIGH) - 0.001) - e) % EVERY == 0 && log10(10.0 ** e / (COST_LOW / 3)) * W * 842 / log10(HIGH / LOW) > 30) { set xtics add (sprintf("%g", 10.0 ** e) 10.0 ** e) }
      set ytics add (sprintf("%g", 10.0 ** e) 10.0 ** e)
    }
    set xlabel PANELS == 1 ? "cost: moving and computing again (s over the trace, log)" : "cost (s over the trace, log)"
    if (p == 0) { set ylabel "saved in reading rows (s over the trace, log)" } else { unset ylabel }
    set label 1 GPU_NAME[p + 1] at graph 0,1 left offset 0,0.7 font FACE.":Bold,11"
    set arrow 1 from LOW,LOW to HIGH,HIGH nohead lw 1.6 lc rgb INK back
    set label 2 "break-even" at graph 0.99,PANELS > 2 ? 0.56 : 0.78 right font FACE.",10" tc rgb GREY
    set arrow 2 from COST_LOW / 1.6,LOW to COST_LOW / 1.6,HIGH nohead lw 0.8 dt 3 lc rgb GREY back
    set arrow 3 from LOW,COST_LOW / 1.6 to HIGH,COST_LOW / 1.6 nohead lw 0.8 dt 3 lc rgb GREY back
    plot 'costs.tsv' index p using ($3 == 1 ? $1 : NaN):2 with points pt 7 ps 1.1 lc rgb "#009E73", \
         '' index p using ($3 == 2 ? $1 : NaN):2 with points pt 6 ps 1.1 lw 1.6 lc rgb "#D55E00", \
         '' index p using ($3 == 3 ? $1 : NaN):2 with points pt 2 ps 1.1 lw 1.6 lc rgb INK, \
         'cost-names.tsv' index p using ($4 == 0 ? at($1) : NaN):(at($2)):3 with labels left font FACE.",9", \
         '' index p using ($4 == 1 ? at($1) : NaN):(at($2)):3 with labels right font FACE.",9", \
         'costs.tsv' index p using ($3 == 4 ? $1 : NaN):2 with points pt 8 ps 1.1 lw 1.6 lc rgb "#0072B2"
  }
}
unset multiplot

# sweep-costs.gp - what each simulation pays against what it saves, both as shares of the reading time; a panel a GPU, a shape a
# column of the page before. Axes begin at the edge on which nothing stands and end at a decade.
TITLE = "Cost against gain, by pool and GPU"
FINDING = FIND_COSTS
NOTE = COST_POINTS > 0 ? "" : "This dataset holds no cost of a policy that fits."
load 'page.gp'
if (COST_POINTS > 0) {
  KEY_COLUMNS = 7
  KEY_ROWS = COLUMNS > 7 ? 2 : 1
  load 'key-open.gp'
  plot 2 notitle, \
    for [k = 0:int(COLUMNS) - 1] keyentry with points pt hollow(k) ps 1.1 lw 1.4 lc rgb colour(k) title COLUMN_NAME[k + 1]
  load 'key-close.gp'
  W = (0.957 - 0.095 - (GPUS - 1) * 0.03) / GPUS
  HIGH = larger(10, decade_above(COST_MOST * 1.5))
  set bmargin at screen 0.155
  set tmargin at screen 0.745
  set logscale xy 10
  set xrange [COST_EDGE / 2:HIGH]
  set yrange [COST_EDGE / 2:HIGH]
  set xtics font FACE.",9.5"
  set ytics font FACE.",9.5"
  do for [p = 0:int(GPUS) - 1] {
    set lmargin at screen 0.095 + p * (W + 0.03)
    set rmargin at screen 0.095 + p * (W + 0.03) + W
    set xtics ("0" COST_EDGE)
    set ytics ((p == 0 ? "0" : "") COST_EDGE)
    do for [e = floor(log10(COST_EDGE) + 1.001):ceil(log10(HIGH) - 0.001)] {
      set xtics add (sprintf("%g", 10.0 ** e) 10.0 ** e)
      set ytics add (p == 0 ? sprintf("%g", 10.0 ** e) : "" 10.0 ** e)
    }
    set xlabel GPUS > 2 ? "cost (% of reading)" : "cost (% of the time of reading the rows, log)"
    if (p == 0) { set ylabel "saved (% of the time of reading the rows, log)" } else { unset ylabel; set format y "" }
    set label 1 GPU_NAME[p + 1] at graph 0,1 left offset 0,0.7 font FACE.":Bold,10.5"
    set arrow 1 from COST_EDGE / 2,COST_EDGE / 2 to HIGH,HIGH nohead lw 1.6 lc rgb INK back
    set label 2 "break-even" at graph 0.97,0.80 right font FACE.",10" tc rgb GREY
    set arrow 2 from COST_EDGE / 2,100 * EFFECT to HIGH,100 * EFFECT nohead lw 1 dt 3 lc rgb GREY back
    set label 3 sprintf("%g %%: an effect", 100 * EFFECT) at COST_EDGE,100 * EFFECT left offset 1,0.5 font FACE.",9" tc rgb GREY
    plot for [k = 0:int(COLUMNS) - 1] 'costs.tsv' index p using ($3 == k ? $1 : NaN):2 with points pt hollow(k) ps 1.1 lw 1.4 lc rgb colour(k), 1e-30 notitle
  }
}
unset multiplot

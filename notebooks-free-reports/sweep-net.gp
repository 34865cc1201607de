# sweep-net.gp - saved less paid as a share of the reading time: policies down, pools across, a panel a GPU. A shade says
# what the sign says already.
TITLE = LEFT_OUT > 0 ? sprintf("What each policy gains: %.0f simulations are beyond this page", LEFT_OUT) : "What each policy gains, by pool and GPU"
FINDING = FIND_NET
NOTE = ROWS > 0 && GPUS > 0 ? "" : "This dataset holds no simulation."
load 'page.gp'
if (!strlen(NOTE)) {
  KEY_COLUMNS = 4
  KEY_ROWS = 1
  load 'key-open.gp'
  set style fill solid 1 border lc rgb GREY
  plot 2 notitle, \
    keyentry with boxes fs solid 1 border lc rgb GREY fc rgb "#a8d8c4" title "pays", \
    keyentry with boxes fs solid 1 border lc rgb GREY fc rgb "#f3c9a8" title "costs more than it saves", \
    keyentry with boxes fs solid 1 border lc rgb GREY fc rgb "#ffffff" title sprintf("no effect (under %g %%), or no policy", 100 * EFFECT), \
    keyentry with boxes fs pattern 4 border lc rgb GREY fc rgb GREY title "hatched: no room for the schedule"
  load 'key-close.gp'
  FILL = "#a8d8c4 #f3c9a8 #ffffff #ffffff #f2f2f2"
  W = (0.957 - 0.125 - (GPUS - 1) * 0.015) / GPUS
  set tmargin at screen 0.745
  set bmargin at screen 0.155
  set yrange [ROWS + 0.5:0.5]
  set xrange [0.5:COLUMNS + 0.5]
  unset grid
  set border 0
  SIZE = COLUMNS * GPUS > 16 ? 7 : COLUMNS * GPUS > 10 ? 8 : 9.5
  set xtics scale 0 font FACE.sprintf(",%g", SIZE)
  set ytics scale 0 font FACE.",9.5"
  do for [p = 0:int(GPUS) - 1] {
    set lmargin at screen 0.125 + p * (W + 0.015)
    set rmargin at screen 0.125 + p * (W + 0.015) + W
    set label 1 GPU_NAME[p + 1] at graph 0,1 left offset 0,0.7 font FACE.":Bold,10.5"
    set xtics ("" 0)
    do for [k = 1:int(COLUMNS)] { set xtics add (COLUMN_NAME[k] k) }
    set xlabel TRACES > 1 ? "trace: pool (slots)" : "pool (slots)"
    if (p == 0) {
      set ytics ("" 0)
      do for [k = 1:int(ROWS)] { set ytics add (ROW_NAME[k] k) }
    } else { unset ytics }
    plot for [c in "1 2 3 5"] 'net.tsv' index p using ($3 == c + 0 ? $1 : NaN):2:($1 - 0.48):($1 + 0.48):($2 - 0.44):($2 + 0.44) with boxxyerror fs solid 1 border lc rgb FAINT fc rgb word(FILL, c + 0), \
         '' index p using ($3 == 4 ? $1 : NaN):2:($1 - 0.48):($1 + 0.48):($2 - 0.44):($2 + 0.44) with boxxyerror fs pattern 4 border lc rgb FAINT fc rgb "#c8c8c8", \
         '' index p using 1:2:4 with labels center font FACE.sprintf(",%g", SIZE)
  }
}
unset multiplot

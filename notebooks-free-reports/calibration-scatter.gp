# calibration-scatter.gp - what scattered rows cost: time over that of contiguous rows against run length, a line a row size;
# measured filled, the memory model hollow. All of it at the left, what lies near 1 again at the right.
TITLE = "Scatter: time against contiguous rows"
FINDING = FIND_SCATTER
NOTE = SCATTERS > 0 ? "" : "This dataset holds no gather of runs beside contiguous rows."
load 'page.gp'
if (SCATTERS > 0) {
  KEY_COLUMNS = 5
  KEY_ROWS = 2
  load 'key-open.gp'
  plot 2 notitle, \
    for [s = 0:int(SCATTERS) - 1] keyentry with linespoints pt filled(s) ps 0.9 lw 1.4 dt dash(s) lc rgb colour(s) title SCATTER_NAME[s + 1], \
    keyentry with points pt 7 ps 0.9 lc rgb GREY title "measured", \
    keyentry with points pt 6 ps 1.3 lw 1.2 lc rgb GREY title HAS_MODEL > 0 ? "memory model" : ""
  load 'key-close.gp'
  set tmargin at screen 0.738
  set bmargin at screen 0.155
  set logscale x 2
  X_HIGH = larger(64, RUN_MOST)
  set xrange [0.85:X_HIGH * 1.25]
  set xtics nomirror out
  set xlabel "run length (rows side by side, log)"
  do for [p = 1:2] {
    set lmargin at screen 0.090 + (p - 1) * 0.455
    set rmargin at screen 0.090 + (p - 1) * 0.455 + 0.412
    set arrow 1 from 0.85,1 to X_HIGH * 1.25,1 nohead lw 1.2 lc rgb GREY back
    if (p == 1) {
      set logscale y 2
      set yrange [0.9:larger(4, 1.1 * SCATTER_MOST)]
      set ytics ("1" 1, "1.2" 1.2, "1.5" 1.5, "2" 2, "2.5" 2.5, "3" 3, "4" 4, "6" 6, "8" 8, "12" 12, "16" 16)
      set ylabel "t / t of contiguous rows (log)"
      set label 1 "all" at graph 0,1 left offset 0,0.6 font FACE.":Bold,11"
    } else {
      unset logscale y
      set yrange [0.95:1.15]
      set ytics 0.05
      set format y "%.2f"
      unset ylabel
      set label 1 "near 1 (linear)" at graph 0,1 left offset 0,0.6 font FACE.":Bold,11"
    }
    plot for [s = 0:int(SCATTERS) - 1] 'scatter.tsv' index s using 1:2 with lines lw 1.4 dt dash(s) lc rgb colour(s) notitle, \
         for [s = 0:int(SCATTERS) - 1] '' index s using 1:2 with points pt filled(s) ps 0.9 lc rgb colour(s) notitle, \
         for [s = 0:int(SCATTERS) - 1] '' index s using 1:3 with points pt hollow(s) ps 1.3 lw 1.2 lc rgb colour(s) notitle
  }
}
unset multiplot

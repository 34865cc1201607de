# calibration-ceilings.gp - every ceiling as 100 %, with the configurations that were tried left of it and its figures beside it.
TITLE = CEILINGS_LEFT_OUT > 0 ? sprintf("Ceilings: the first %.0f of %.0f", CEILINGS, CEILINGS + CEILINGS_LEFT_OUT) : "Ceilings"
FINDING = FIND_CEILINGS
NOTE = CEILINGS > 0 ? "" : "This dataset holds no ceiling."
load 'page.gp'
if (CEILINGS > 0) {
  set lmargin at screen 0.120
  set rmargin at screen 0.430
  set bmargin at screen 0.155
  set tmargin at screen 0.795
  set xrange [0:105]
  set yrange [larger(CEILINGS, 4) + 0.6:0.4]
  set xtics 0,20
  set xlabel "configurations tried (% of the best median)"
  set ytics font FACE.",9" scale 0
  unset grid
  set grid xtics ytics
  HEADS = "best~median 95~%~interval at microbenchmark"
  PLACES = "0.513 0.618 0.725 0.738"
  do for [k = 1:4] {
    if (k < 4) { set label k join_blank(word(HEADS, k)) at screen word(PLACES, k) + 0,0.820 right font FACE.":Bold,9.5" tc rgb GREY }
  }
  set label 4 word(HEADS, 4) at screen word(PLACES, 4) + 0,0.820 left font FACE.":Bold,9.5" tc rgb GREY
  set key at screen 0.430,0.850 right top horizontal samplen 0.6 width 0 font FACE.",9.5"
  plot 'tried.tsv' using 2:1 with points pt 6 ps 0.7 lw 1 lc rgb "#0072B2" title "tried", \
       'ceilings.tsv' using 3:1:4:5 with xerrorbars pt 0 lw 1.4 lc rgb INK notitle, \
       '' using 3:1:ytic(2) with points pt 7 ps 0.9 lc rgb INK title "best"
  unset key
  unset label
  unset border
  unset tics
  unset grid
  unset xlabel
  set lmargin at screen 0.430
  set rmargin at screen 0.990
  set xrange [0.430:0.990]
  plot for [k = 1:3] 'ceilings.tsv' using (word(PLACES, k) + 0):1:(stringcolumn(5 + k)) with labels right font FACE.",9", \
       '' using (word(PLACES, 4) + 0):1:(stringcolumn(9)) with labels left font FACE.",8.5"
}
unset multiplot

# whatif-policies.gp - policies side by side: mean run as a mark, what each takes and gives as a table beside it.
TITLE = LEFT_OUT > 0 ? sprintf("Policies side by side: the first %.0f of %.0f", POLICIES, POLICIES + LEFT_OUT) : "Policies side by side"
FINDING = FIND_POLICIES
NOTE = POLICIES > 0 ? "" : "This dataset holds no policy."
load 'page.gp'
if (POLICIES > 0) {
  set lmargin at screen 0.150
  set rmargin at screen 0.500
  set bmargin at screen 0.155
  set tmargin at screen 0.795
  set logscale x 10
  set mxtics 10
  X_HIGH = larger(10, decade_above(RUN_MOST * 1.01))
  set xrange [0.8:X_HIGH]
  set yrange [larger(POLICIES, 4) + 0.6:0.4]
  set format x "%.0s%c"
  set xlabel "mean run (rows, log; dashed: as recorded)"
  set ytics font FACE.",10.5" scale 0
  unset grid
  set grid xtics ytics
  HEADS = "capacity~lost tokens~again rows~copied net verdict"
  PLACES = "0.590 0.682 0.775 0.865 0.957"
  do for [k = 1:5] {
    set label k join_blank(word(HEADS, k)) at screen word(PLACES, k) + 0,0.820 right font FACE.":Bold,9.5" tc rgb GREY
  }
  set key off
  plot 'policies.tsv' using (0.8):1:($3 - 0.8):(0) with vectors nohead lw 1 lc rgb "#bbbbbb", \
       '' using 4:1 with lines lw 1.2 dt 2 lc rgb GREY, \
       '' using 3:1:ytic(2) with points pt 7 ps 1.1 lc rgb "#0072B2"
  # The table is a panel of its own, in units of the screen.
  unset label
  unset logscale
  unset border
  unset tics
  unset grid
  unset xlabel
  set lmargin at screen 0.500
  set rmargin at screen 0.957
  set xrange [0.500:0.957]
  plot for [k = 1:5] 'policies.tsv' using (word(PLACES, k) + 0):1:(stringcolumn(4 + k)) with labels right font FACE.",9.5"
}
unset multiplot

# roofline-ladder.gp - what the time of a kernel is made of: a bar a kernel on a log axis of time, from its floor T0
# upwards, a segment a cause; a step that falls is an arrow under the bar. Equal lengths are equal factors, so that the segments of a bar can be compared.
TITLE = "The ladder: what keeps each kernel from its floor"
FINDING = FIND_LADDER
NOTE = LADDER_ROWS > 0 ? "" : "This dataset holds no floor."
load 'page.gp'
if (LADDER_ROWS > 0) {
  set lmargin at screen 0.205
  set rmargin at screen 0.862
  set bmargin at screen 0.155
  set tmargin at screen 0.755
  set logscale x 10
  set mxtics 10
  X_LOW = TIME_LOW > 0 ? smaller(1.0, decade_below(TIME_LOW)) : 1.0
  X_HIGH = TIME_HIGH > 0 ? larger(1e5, decade_above(TIME_HIGH * 1.01)) : 1e5
  set xrange [X_LOW:X_HIGH]
  set yrange [larger(LADDER_ROWS, 3) + 0.6:0.4]
  set format x "%g"
  set xlabel "time at the kernel's longest prefix (us, log)"
  set ytics font FACE.",10.5" scale 0
  unset grid
  set grid xtics
  set key at screen 0.957,0.862 right top horizontal Left reverse samplen 1.6 width -1 maxcols 5 maxrows 2 font FACE.",10"
  # Dark and light alternate, so that neighbours part in grey too.
  CAUSE = "#E69F00 #0072B2 #f0e0c0 #D55E00 #bcdcf0 #009E73 #d9d9d9"
  NAMES = "path work scatter placement serial memory overhead"
  H = 0.24
  ABOVE = H + 0.04 + 0.018 * larger(LADDER_ROWS, 3)
  plot 'ladder-end.tsv' using (X_LOW):1:(X_LOW):3:($1 - H):($1 + H):ytic(2) with boxxyerror fs solid 1 border lc rgb GREY fc rgb "#f4f4f4" title "floor T0", \
       for [c = 1:7] 'ladder.tsv' using 2:($4 == c && $3 >= $2 ? $1 : NaN):2:3:($1 - H):($1 + H) with boxxyerror fs solid 1 border lc rgb INK fc rgb word(CAUSE, c) notitle, \
       'ladder-end.tsv' using 9:1:(larger(larger(known(4), known(7)), $9) - $9):(0) with vectors nohead lw 1.4 dt 3 lc rgb INK \
         title "in no step", \
       'ladder.tsv' using (sqrt($2 * $3)):($3 >= $2 ? $1 + ($6 > 0 ? ABOVE : -ABOVE) : NaN):5 with labels center font FACE.",9", \
       'ladder.tsv' using 2:($3 < $2 ? $1 + H + 0.06 : NaN):($3 - $2):(0) with vectors filled lw 1.6 lc rgb "#D55E00" notitle, \
       'ladder.tsv' using 2:($3 < $2 ? $1 + H + 0.08 : NaN):5 with labels left offset 0.6,0 font FACE.",9" tc rgb "#a04000", \
       'ladder-end.tsv' using 7:1 with points pt 12 ps 1.3 lw 1.6 lc rgb INK title MODELLED > 0 ? "modelled" : "", \
       '' using 4:1:5:6 with xerrorbars pt 13 ps 1.3 lw 1.4 lc rgb INK title MEASURED > 0 ? "measured" : "", \
       '' using (larger(larger(known(4), known(7)), larger($9, $3))):1:8 with labels left offset 1.4,0 font FACE.",9.5", \
       for [c = 1:7] keyentry with boxes fs solid 1 border lc rgb INK fc rgb word(CAUSE, c) title CAUSE_KNOWN[c] > 0 ? word(NAMES, c) : ""
}
unset multiplot

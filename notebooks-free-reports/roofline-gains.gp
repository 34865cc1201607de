# roofline-gains.gp - what removing one cause alone would gain: time over time without it, with its interval.
TITLE = "What one fix alone would gain"
FINDING = FIND_GAINS
NOTE = GAIN_ROWS > 0 ? "" : "No gain of any kernel is known."
load 'page.gp'
if (GAIN_ROWS > 0) {
  set lmargin at screen 0.205
  set rmargin at screen 0.957
  set bmargin at screen 0.155
  set tmargin at screen 0.775
  set logscale x 10
  set mxtics 10
  set xrange [0.8:larger(10, decade_above(GAIN_MOST * 1.5))]
  set yrange [larger(GAIN_ROWS, 3) + 0.6:0.4]
  set format x "%g"
  set xlabel "time / time without this cause (1 = nothing to gain; log)"
  set ytics font FACE.",10.5" scale 0
  unset grid
  set grid xtics
  set arrow 1 from 1, graph 0 to 1, graph 1 nohead lw 1.4 lc rgb GREY back
  set key at screen 0.957,0.842 right top horizontal Left reverse samplen 1.2 width -1 maxcols 7 maxrows 1 font FACE.",10"
  CAUSE = "#E69F00 #0072B2 #56B4E9 #D55E00 #CC79A7 #009E73 #000000"
  NAMES = "path work scatter placement serial memory overhead"
  MARKS = "4 7 6 5 9 11 2"
  plot 'gains-rows.tsv' using (0.8):1:ytic(2) with points pt 0, \
       for [c = 1:7] 'gains.tsv' using ($5 == c ? $2 : NaN):($1 + (c - 4) * 0.1):3:4 with xerrorbars \
         pt (word(MARKS, c) + 0) ps 1 lw 1.3 lc rgb word(CAUSE, c) notitle, \
       for [c = 1:7] '' using ($5 == c ? $2 : NaN):($1 + (c - 4) * 0.1) with points \
         pt (word(MARKS, c) + 0) ps 1 lw 1.3 lc rgb word(CAUSE, c) notitle, \
       for [c = 1:7] keyentry with points pt (word(MARKS, c) + 0) ps 1 lw 1.3 lc rgb word(CAUSE, c) \
         title GAIN_KNOWN[c] > 0 ? word(NAMES, c) : ""
}
unset multiplot

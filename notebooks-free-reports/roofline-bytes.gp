# roofline-bytes.gp - bytes that each kernel moves at each level, as a multiple of the useful bytes. Bars start at 1: a bar
# is what is moved more than once.
TITLE = "Bytes moved against useful bytes"
FINDING = FIND_BYTES
NOTE = BYTE_ROWS > 0 ? "" : "This dataset holds no point."
load 'page.gp'
if (BYTE_ROWS > 0) {
  set lmargin at screen 0.205
  set rmargin at screen 0.957
  set bmargin at screen 0.155
  set tmargin at screen 0.795
  set logscale x 10
  set mxtics 10
  set xrange [0.5:larger(100, decade_above(BYTE_MOST * 3))]
  set yrange [larger(BYTE_ROWS, 3) + 0.6:0.4]
  set xlabel "bytes moved / useful bytes (1 = everything once; log)"
  set ytics font FACE.",10.5" scale 0
  unset grid
  set grid xtics
  set key at screen 0.957,0.842 right top horizontal Left reverse width 1 maxrows 1
  set arrow 1 from 1, graph 0 to 1, graph 1 nohead lw 1.6 lc rgb INK front
  SMALL = BYTE_ROWS > 6 ? "8" : "9.5"
  plot 'bytes.tsv' using 3:1:(1):3:($1 - 0.34):($1 - 0.12) with boxxyerror fs solid 1 border lc rgb INK fc rgb "#00395c" title "from DRAM", \
       '' using 5:1:(1):5:($1 - 0.10):($1 + 0.12) with boxxyerror fs solid 1 border lc rgb INK fc rgb "#cfe6f5" title "out of L2", \
       '' using 7:1:(1):7:($1 + 0.14):($1 + 0.36) with boxxyerror fs solid 1 border lc rgb INK fc rgb "#D55E00" title "L2-to-SM link", \
       '' using 9:($1 - 0.23):4 with labels left offset 0.7,0 font FACE.",".SMALL, \
       '' using 10:($1 + 0.01):6 with labels left offset 0.7,0 font FACE.",".SMALL, \
       '' using 11:($1 + 0.25):8 with labels left offset 0.7,0 font FACE.",".SMALL, \
       '' using (NaN):1:ytic(2) with points
}
unset multiplot

# kvsim-overhead.gp - what reading a request's rows touches, as a multiple of the least that its bytes could touch.
TITLE = "What scatter costs in sectors, pages and DRAM rows"
FINDING = FIND_OVERHEAD
NOTE = OVER_SHOWN > 0 ? "" : "This dataset holds no sample of a running request."
load 'page.gp'
if (OVER_SHOWN > 0) {
  set lmargin at screen 0.235
  set rmargin at screen 0.957
  set bmargin at screen 0.155
  set tmargin at screen 0.795
  set logscale x 10
  set mxtics 10
  set xrange [0.8:larger(10, decade_above(OVER_MOST * 1.01))]
  set yrange [larger(OVER_SHOWN, 5) + 0.7:0.3]
  set grid xtics ytics
  set xlabel "times the least possible (1 = all rows side by side; log)".(OVER_ALL > OVER_SHOWN ? sprintf(": the %.0f farthest of %.0f requests", OVER_SHOWN, OVER_ALL) : "")
  set ytics font FACE.",10"
  set key at screen 0.957,0.842 right top horizontal Left reverse samplen 0.6 width -3 maxcols 3 maxrows 1 font FACE.",10"
  set arrow 1 from 1, graph 0 to 1, graph 1 nohead lw 1.4 lc rgb GREY back
  plot 'overhead.tsv' using (1):1:(larger($4, $5) - 1):(0) with vectors nohead lw 0.7 lc rgb "#bbbbbb" notitle, \
       '' using 3:1:ytic(2) with points pt 2 ps 0.9 lw 1.6 lc rgb INK title sprintf("%.0f-B sectors", SECTOR_BYTES), \
       '' using 4:1 with points pt 9 ps 1.0 lc rgb "#009E73" title sprintf("%.0f-MiB pages", TLB_BYTES / 1048576), \
       '' using 5:1 with points pt 6 ps 1.0 lw 1.8 lc rgb "#D55E00" title sprintf("DRAM rows (%.0f B, assumed)", DRAM_ROW_BYTES)
}
unset multiplot

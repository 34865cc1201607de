# calibration-reach.gp - what the memory that addresses spread over does: the latency of a chase, the rate of random rows.
# The footprint axis is fixed, 1 MiB to 256 GiB.
TITLE = "Footprint: caches and the TLB's reach"
FINDING = FIND_REACH
NOTE = REACH_POINTS > 0 ? "" : "This dataset holds no footprint."
load 'page.gp'
if (REACH_POINTS > 0) {
  KEY_COLUMNS = 5
  KEY_ROWS = 1
  load 'key-open.gp'
  plot 2 notitle, \
    for [s = 0:int(REACHES) - 1] keyentry with linespoints pt filled(s) ps 0.9 lw 1.4 dt dash(s) lc rgb colour(s) title REACH_NAME[s + 1], \
    keyentry with points pt 6 ps 1.4 lw 1.2 lc rgb GREY title HAS_MODEL > 0 ? "memory model" : ""
  load 'key-close.gp'
  set tmargin at screen 0.765
  set bmargin at screen 0.155
  set logscale x 2
  set xrange [2.0 ** 20:2.0 ** 38 * 1.01]
  set xtics nomirror out font FACE.",9.5"
  set xtics ("1 MiB" 2.0 ** 20, "16 MiB" 2.0 ** 24, "256 MiB" 2.0 ** 28, "4 GiB" 2.0 ** 32, "64 GiB" 2.0 ** 36)
  do for [e = 21:38] { if (e % 4 != 0) { set xtics add ("" 2.0 ** e 1) } }
  set xlabel "footprint (B, log)"
  set format y "%g"
  do for [p = 1:2] {
    set lmargin at screen 0.090 + (p - 1) * 0.462
    set rmargin at screen 0.090 + (p - 1) * 0.462 + 0.405
    if (L2_BYTES > 0) {
      set arrow 1 from L2_BYTES,graph 0 to L2_BYTES,graph 1 nohead lw 1.2 dt 3 lc rgb GREY back
      set label 1 "L2" at L2_BYTES,graph 0.04 left offset 0.5,0 font FACE.",9.5" tc rgb GREY
    }
    if (p == 1) {
      set yrange [0:600]
      set ylabel "latency (ns)"
      set label 2 "chase of 128-byte lines, idle" at graph 0,1 left offset 0,0.6 font FACE.":Bold,11"
      plot 'reach-latency.tsv' using 1:2:3:4 with yerrorbars pt 0 lw 1.2 lc rgb "#0072B2", \
           '' using 1:2 with linespoints pt 7 ps 0.9 lw 1.4 lc rgb "#0072B2"
    } else {
      set logscale y 10
      set mytics 10
      TOP = L2 > 0 ? decade_above(L2) : DRAM > 0 ? decade_above(2 * DRAM) : 1e4
      set yrange [TOP / 100:TOP * 1.6]
      set ylabel "gather (GB/s, log)" offset 1,0
      set label 2 "rows at random places" at graph 0,1 left offset 0,0.6 font FACE.":Bold,11"
      if (DRAM > 0) {
        set arrow 3 from 2.0 ** 20,DRAM to 2.0 ** 38,DRAM nohead lw 1.6 lc rgb INK back
        set label 3 sprintf("DRAM ceiling %.0f GB/s", DRAM) at 2.0 ** 38,DRAM right offset -0.4,0.5 font FACE.",9.5"
      }
      if (REACHES < 1) { set label 4 "not measured" at graph 0.5,0.5 center font FACE.",10" tc rgb GREY }
      plot for [s = 0:int(REACHES) - 1] 'reach.tsv' index s using 1:2:3:4 with yerrorbars pt 0 lw 1.2 lc rgb colour(s) notitle, \
           for [s = 0:int(REACHES) - 1] '' index s using 1:2 with linespoints pt filled(s) ps 0.9 lw 1.4 dt dash(s) lc rgb colour(s) notitle, \
           for [s = 0:int(REACHES) - 1] '' index s using 1:5 with points pt hollow(s) ps 1.4 lw 1.2 lc rgb colour(s) notitle
    }
    unset label
    unset arrow
  }
}
unset multiplot

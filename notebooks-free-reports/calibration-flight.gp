# calibration-flight.gp - the gather over bytes in flight, and over SMs at work. The bandwidth axes end a tenth beyond the
# DRAM ceiling.
TITLE = "Gather against bytes in flight"
FINDING = FIND_FLIGHT
NOTE = FLIGHTS + FEW > 0 ? "" : "This dataset holds no gather with few bytes in flight."
load 'page.gp'
if (!strlen(NOTE)) {
  KEY_COLUMNS = 4
  KEY_ROWS = 2
  load 'key-open.gp'
  plot 2 notitle, \
    for [s = 0:int(FLIGHTS) - 1] keyentry with linespoints pt filled(s) ps 0.8 lw 1.4 dt dash(s) lc rgb colour(s) title FLIGHT_NAME[s + 1], \
    keyentry with lines lw 2.4 lc rgb "#bbbbbb" title DRAM_LATENCY > 0 ? "in flight / idle latency" : "", \
    keyentry with points pt 6 ps 1.3 lw 1.2 lc rgb GREY title HAS_MODEL > 0 ? "memory model" : ""
  load 'key-close.gp'
  set tmargin at screen 0.738
  set bmargin at screen 0.155
  TOP = DRAM > 0 ? 1.1 * DRAM : 1000
  set format y "%g"
  set lmargin at screen 0.090
  set rmargin at screen 0.502
  set logscale x 2
  set xrange [256:262144 * 1.01]
  set xtics nomirror out ("256 B" 256, "" 512 1, "1 KiB" 1024, "" 2048 1, "4" 4096, "" 8192 1, "16" 16384, "" 32768 1, "64" 65536, "" 131072 1, "256 KiB" 262144)
  set yrange [0:TOP]
  set xlabel "bytes in flight on each SM (log)"
  set ylabel "rows read (GB/s)"
  set label 1 sprintf("whole chip, %.0f SMs", SMS) at graph 0,1 left offset 0,0.6 font FACE.":Bold,11"
  if (DRAM > 0) {
    set arrow 1 from 256,DRAM to 262144,DRAM nohead lw 1.6 lc rgb INK back
    set label 2 sprintf("DRAM ceiling %.0f GB/s", DRAM) at 256,DRAM left offset 0.6,-0.7 font FACE.",9.5"
  }
  LITTLE(x) = DRAM_LATENCY > 0 && x * SMS / DRAM_LATENCY <= TOP ? x * SMS / DRAM_LATENCY : NaN
  plot LITTLE(x) with lines lw 2.4 lc rgb "#bbbbbb" notitle, \
       for [s = 0:int(FLIGHTS) - 1] 'flight.tsv' index s using 1:2 with linespoints pt filled(s) ps 0.8 lw 1.4 dt dash(s) lc rgb colour(s) notitle, \
       for [s = 0:int(FLIGHTS) - 1] '' index s using 1:5 with points pt hollow(s) ps 1.3 lw 1.2 lc rgb colour(s) notitle
  unset label
  unset arrow
  set lmargin at screen 0.570
  set rmargin at screen 0.957
  set xrange [0.85:256]
  set xtics nomirror out ("1" 1, "2" 2, "4" 4, "8" 8, "16" 16, "32" 32, "64" 64, "128" 128, "256" 256)
  set logscale y 10
  set mytics 10
  TOP = DRAM > 0 ? decade_above(DRAM) : 1e4
  set yrange [TOP / 1000:TOP]
  set ylabel "rows read (GB/s, log)"
  set xlabel "SMs at work (log)"
  if (FEW > 0) { set label 1 sprintf("random rows of %.0f B, %.0f KiB in flight on each", FEW_ROW, FEW_FLIGHT / 1024) at graph 0,1 left offset 0,0.6 font FACE.":Bold,9.5" }
  if (DRAM > 0) {
    set arrow 1 from 0.85,DRAM to 256,DRAM nohead lw 1.6 lc rgb INK back
  }
  if (FEW < 1) { set label 1 "not measured" at graph 0.5,0.5 center font FACE.",10" tc rgb GREY }
  plot 'few.tsv' using 1:2:3:4 with yerrorbars pt 0 lw 1.2 lc rgb "#0072B2", \
       '' using 1:2 with points pt 7 ps 0.9 lc rgb "#0072B2", \
       '' using 1:5 with points pt 6 ps 1.4 lw 1.2 lc rgb "#0072B2"
}
unset multiplot

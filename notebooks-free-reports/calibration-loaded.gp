# calibration-loaded.gp - bandwidth against latency, DRAM and L2: chased beside other traffic where it was, and bytes in
# flight over rate (Little's law) hollow. Both bandwidth axes end a tenth beyond their ceiling.
TITLE = "Bandwidth against latency"
FINDING = FIND_LOADED
NOTE = LOADED > 0 ? "" : "This dataset holds no point of it."
load 'page.gp'
if (LOADED > 0) {
  array PANEL[2] = ["DRAM", "L2"]
  array TOP[2] = [DRAM, L2]
  array IDLE[2] = [DRAM_LATENCY, L2_LATENCY]
  set tmargin at screen 0.775
  set bmargin at screen 0.155
  set logscale y 10
  set mytics 10
  set yrange [100:10000]
  set format y "%g"
  set format x "%g"
  set key at screen 0.957,0.852 right top horizontal Left reverse samplen 1.2 width 0 font FACE.",10"
  do for [p = 1:2] {
    set lmargin at screen 0.090 + (p - 1) * 0.455
    set rmargin at screen 0.090 + (p - 1) * 0.455 + 0.412
    set xrange [0:(TOP[p] > 0 ? 1.1 * TOP[p] : 1000)]
    set xlabel "bandwidth (GB/s)"
    set xtics 1000
    if (TOP[p] > 6000) { set xtics 2000 }
    if (TOP[p] > 12000) { set xtics autofreq }
    if (p == 1) { set ylabel "latency (ns, log)" } else { unset ylabel; set format y "" }
    set label 1 PANEL[p] at graph 0,1 left offset 0,0.7 font FACE.":Bold,11"
    if (TOP[p] > 0) {
      set arrow 1 from TOP[p],100 to TOP[p],10000 nohead lw 1.8 lc rgb INK back
      set label 2 sprintf("ceiling %.0f GB/s", TOP[p]) at TOP[p],9000 right offset -0.6,-0.3 font FACE.",9.5"
    }
    if (IDLE[p] > 0) {
      set arrow 2 from 0,IDLE[p] to 1.1 * TOP[p],IDLE[p] nohead lw 1.2 dt 3 lc rgb GREY back
      set label 3 sprintf("idle %.0f ns", IDLE[p]) at graph 0.5,0 center font FACE.",9.5" tc rgb GREY
      set label 3 at 0.5 * TOP[p],IDLE[p] center offset 0,-0.7
    }
    CHASED = p == 1 ? "chased beside other traffic" : "" # no `title p ...`: see the README of this folder
    COUNTED = p == 1 ? "bytes in flight / rate (mean)" : ""
    plot 'loaded.tsv' index 2 * (p - 1) using 1:2:3:4 with yerrorbars pt 7 ps 0.9 lw 1.2 lc rgb "#0072B2" title CHASED, \
         '' index 2 * (p - 1) + 1 using 1:2:3:4 with yerrorbars pt 4 ps 0.9 lw 1.2 lc rgb "#D55E00" title COUNTED
    unset label 2
    unset label 3
    unset arrow
    unset key
  }
}
unset multiplot

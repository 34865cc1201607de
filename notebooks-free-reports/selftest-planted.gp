# selftest-planted.gp - planted kernels against their controls, a row a cause: times on a log axis at the left, and at the right the
# share of ln(t / t of the control) that the planted cause explains, with its interval and the bar. Axes are 10 us to 100 ms and
# 80 to 110 %, wider only where something lies outside.
TITLE = "Planted against control: is the cause named?"
FINDING = FIND_PLANTED
NOTE = PLANTED_ROWS > 0 ? "" : "This dataset holds no kernel with a planted cause."
load 'page.gp'
if (PLANTED_ROWS > 0) {
  CONTROL = PLANTED_MEASURED > 0 ? 7 : 6
  PLANT = PLANTED_MEASURED > 0 ? 5 : 4
  STATE = PLANTED_MEASURED > 0 ? ", measured" : ", modelled"
  set bmargin at screen 0.155
  set tmargin at screen 0.790
  set yrange [larger(PLANTED_ROWS, 3) + 0.6:0.4]
  unset ytics
  unset grid
  set grid xtics
  set lmargin at screen 0.270
  set rmargin at screen 0.525
  set logscale x 10
  set mxtics 10
  X_LOW = TIME_LOW > 0 ? smaller(10.0, decade_below(TIME_LOW)) : 10.0
  X_HIGH = TIME_HIGH > 0 ? larger(1e5, decade_above(TIME_HIGH * 1.01)) : 1e5
  set xrange [X_LOW:X_HIGH]
  set format x "%g"
  set xtics font FACE.",10"
  set xlabel "time (us, log)"
  set key at screen 0.525,0.842 right top horizontal Left reverse samplen 1.2 width 0 maxrows 1 font FACE.",9.5"
  plot 'planted.tsv' using 4:1:($7 - $4):(0) with vectors nohead lw 1.4 lc rgb GREY notitle, \
       '' using 4:1:5:6 with xerrorbars pt CONTROL ps 1.1 lw 1.2 lc rgb GREY title "control".STATE, \
       '' using 7:1:8:9 with xerrorbars pt PLANT ps 1.2 lw 1.2 lc rgb "#D55E00" title "planted".STATE, \
       '' using (sqrt($4 * $7)):($1 - 0.22):10 with labels center font FACE.",9", \
       '' using (X_LOW * 1.0001):($1 - 0.14):2 with labels right offset -1,0 font FACE.":Bold,10.5", \
       '' using (X_LOW * 1.0001):($1 + 0.20):3 with labels right offset -1,0 font FACE.",8" tc rgb GREY
  unset logscale
  set mxtics default
  set lmargin at screen 0.565
  set rmargin at screen 0.785
  S_LOW = PLANTED_JUDGED > 0 ? smaller(80.0, 10 * floor((SHARE_LOW - 1) / 10.0)) : 80.0
  S_HIGH = PLANTED_JUDGED > 0 ? larger(110.0, 10 * ceil((SHARE_HIGH + 1) / 10.0)) : 110.0
  set xrange [S_LOW:S_HIGH]
  set xlabel "share explained (%)"
  unset key
  if (PLANTED_JUDGED > 0) {
    set arrow 1 from PLANTED_BAR, graph 0 to PLANTED_BAR, graph 1 nohead lw 1.8 lc rgb INK back
    set label 1 sprintf("bar %.0f %%", PLANTED_BAR) at PLANTED_BAR, graph 1 center offset 0,0.6 font FACE.",9.5"
    set arrow 2 from 100, graph 0 to 100, graph 1 nohead lw 1 dt 3 lc rgb GREY back
  } else {
    set label 2 "not judged: roofline selftest\nFILE.h5 -o NEW.h5 adds the shares" at graph 0.5,0.5 center font FACE.",10" tc rgb GREY
  }
  plot 'planted.tsv' using ($16 > 0 ? NaN : $11):1:12:13 with xerrorbars pt PLANT ps 1.2 lw 1.6 lc rgb "#0072B2", \
       '' using ($16 > 0 ? $11 : NaN):1:12:13 with xerrorbars pt 2 ps 1.4 lw 2 lc rgb "#D55E00", \
       '' using (S_HIGH):($1 - 0.14):14 with labels left offset 1,0 font FACE.",9.5", \
       '' using (S_HIGH):($16 > 0 ? NaN : $1 + 0.20):15 with labels left offset 1,0 font FACE.",9" tc rgb GREY, \
       '' using (S_HIGH):($16 > 0 ? $1 + 0.20 : NaN):15 with labels left offset 1,0 font FACE.":Bold,9" tc rgb "#a04000"
}
unset multiplot

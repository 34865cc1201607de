# kvsim-fragmentation.gp - three panels over one step axis: fragmentation of the free space, mean run of the running
# requests, running (and waiting) requests. A band shows what lies between the points drawn.
TITLE = "Fragmentation, run length and load over time"
FINDING = FIND_FRAGMENTATION
NOTE = POOL_ROWS > 0 ? "" : "This dataset holds no sampled step."
load 'page.gp'
if (POOL_ROWS > 0) {
  set lmargin at screen 0.110
  set rmargin at screen 0.957
  set xrange [STEP_FIRST:STEP_LAST > STEP_FIRST ? STEP_LAST : STEP_FIRST + 1]
  BAND = POOL_PER_POINT > 1 ? sprintf("least to most of %.0f samples a point", POOL_PER_POINT) : ""

  set tmargin at screen 0.825
  set bmargin at screen 0.615
  set format x ""
  set yrange [0:1]
  set ytics 0.25
  set ylabel "fragmentation\n(1 - largest/free)" font FACE.",11"
  set key at screen 0.957,0.857 right top font FACE.",9.5"
  plot 'pool.tsv' using 1:6:7 with filledcurves fc rgb "#a9d3ee" title BAND, \
       '' using 1:5 with lines lw 1.6 lc rgb "#0072B2"

  set tmargin at screen 0.585
  set bmargin at screen 0.375
  set logscale y 10
  set yrange [1:*<1e7]
  set ytics auto
  set ytics 10
  set mytics 10
  set format y "%.0s%c"
  set ylabel "mean run\n(rows, log)" font FACE.",11"
  set key off
  stats 'pool.tsv' using 10 nooutput name "RUN"
  if (RUN_records > 0) {
    set yrange [1:larger(10, decade_above(RUN_max * 1.01))]
    plot 'pool.tsv' using 1:9:10 with filledcurves fc rgb "#f5c6a5", \
         '' using 1:8 with lines lw 1.6 lc rgb "#D55E00"
  } else {
    set yrange [1:10]
    set label 1 "no request was running at any sampled step" at graph 0.5,0.5 center tc rgb GREY
    plot 0.5 notitle
    unset label 1
  }
  unset logscale y
  set format y "%g"

  set tmargin at screen 0.345
  set bmargin at screen 0.155
  set format x "%g"
  set xlabel "scheduler step"
  set yrange [0:larger(1, REQUESTS_MOST) * 1.4]
  set ytics auto
  if (REQUESTS_MOST < 6) { set ytics 1 }
  set ylabel "requests" font FACE.",11"
  set key at graph 0.995,0.99 right top horizontal opaque font FACE.",9.5"
  if (WAITING_KNOWN > 0) {
    plot 'pool.tsv' using 1:11 with lines lw 1.6 lc rgb INK title "running", \
         '' using 1:12 with lines lw 1.6 dt 2 lc rgb "#009E73" title "waiting"
  } else {
    plot 'pool.tsv' using 1:11 with lines lw 1.6 lc rgb INK title "running (waiting: not recorded)"
  }
}
unset multiplot

# kvsim-pool.gp - what the pool's slots are over time, stacked.
TITLE = "Pool occupancy: live, cached and free slots"
FINDING = FIND_POOL
NOTE = POOL_ROWS > 0 ? "" : "This dataset holds no sampled step."
load 'page.gp'
if (POOL_ROWS > 0) {
  set lmargin at screen 0.095
  set rmargin at screen 0.915
  set bmargin at screen 0.155
  set tmargin at screen 0.795
  SCALE = POOL >= 2e6 ? 1e6 : POOL >= 2e3 ? 1e3 : 1.0
  GIB = ROW_BYTES / 1073741824.0
  MEMORY = POOL * GIB >= 1 ? GIB : GIB * 1024
  set xlabel "scheduler step"
  set ylabel SCALE == 1e6 ? "slots (million)" : SCALE == 1e3 ? "slots (thousand)" : "slots"
  set y2label POOL * GIB >= 1 ? "KV memory of one layer (GiB)" : "KV memory of one layer (MiB)" font FACE.",12.5" offset -0.5
  set border 15
  set y2tics
  set xrange [STEP_FIRST:STEP_LAST > STEP_FIRST ? STEP_LAST : STEP_FIRST + 1]
  set yrange [0:POOL / SCALE]
  set y2range [0:POOL * MEMORY]
  set key at screen 0.915,0.842 right top horizontal reverse Left samplen 2 width 1 maxrows 1
  plot 'pool.tsv' using 1:(0):(($2) / SCALE) with filledcurves fc rgb "#0072B2" title "live", \
       '' using 1:(($2) / SCALE):(($2 + $3) / SCALE) with filledcurves fc rgb "#a9d3ee" title "cached", \
       '' using 1:(($2 + $3) / SCALE):(POOL / SCALE) with filledcurves fc rgb "#f3f3f3" title "free", \
       '' using 1:(($2) / SCALE) with lines lw 1.4 lc rgb INK, \
       '' using 1:(($2 + $3) / SCALE) with lines lw 1.4 dt 2 lc rgb INK
}
unset multiplot

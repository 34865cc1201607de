# case-study.gp - one page of the case study: the step on the RTX PRO 6000, the test of each explanation, the ladder.
load HERE.'/style.gp'
set terminal pdfcairo @PDF_TERMINAL
set output OUT
set multiplot layout 1,3 margins 0.07,0.985,0.16,0.86 spacing 0.085 title "Why one decode step took 1.4 s (RTX PRO 6000: modelled; H200: measured, 131072 tokens)" font FACE.":Bold,14"

set title "decode step, 61 layers, 8 heads" font FACE.":Bold,11"
set logscale xy
set xrange [3000:300000]
set yrange [0.01:10]
set xtics ("4k" 4096, "16k" 16384, "64k" 65536, "185k" 189440)
set xlabel "context (tokens)"
set ylabel "step (s)"
set key bottom right
plot DATA.'/steps.tsv' skip 1 using 1:3:4 with filledcurves fs solid 0.15 noborder lc rgb colour(0) title "interval", \
     '' skip 1 using 1:2 with linespoints pt hollow(0) lw 1.6 lc rgb colour(0) title "modelled, sm_120", \
     '+' using (131072):(1.4) every ::0::0 with points pt 2 ps 1.6 lw 2 lc rgb INK title "told: 1.4 s"

unset logscale
set title "what each explanation predicts" font FACE.":Bold,11"
set style data histogram
set style histogram clustered gap 1
set boxwidth 0.9
set xrange [*:*]
set logscale y
set yrange [0.5:20]
set xtics ("scatter" 0, "row\nlat." 1, "re-\nread" 2, "under-\nfill" 3) norotate font FACE.",9.5"
unset xlabel
set ylabel "ratio of times (see case-study.md)"
set key top right font FACE.",9.5" samplen 2
plot DATA.'/explanations.tsv' skip 1 using 2 fs solid 0.3 lc rgb colour(1) title "predicted, if it were the cause", \
     '' skip 1 using 3 fs solid 1 lc rgb colour(0) title "measured, H200"

unset logscale
set title "the ladder, modelled" font FACE.":Bold,11"
set yrange [0:4.5]
set xtics ("place-\nment" 0, "work" 1, "serial" 2, "expo-\nsed m." 3, "scat-\nter" 4, "over-\nhead" 5) font FACE.",9.5"
set ylabel "share (nats)"
plot DATA.'/ladder.tsv' skip 1 using 2 fs solid 0.4 lc rgb colour(0) title "H200, tile 32 x 64", \
     '' skip 1 using 3 fs pattern 4 lc rgb colour(1) title "RTX PRO 6000, tile 32 x 32"
unset multiplot
set output

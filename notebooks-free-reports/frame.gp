# frame.gp - the frame that every page shares, drawn as a plot without axes: labels set by the caller, and the footer.
set label 1003 FOOT at screen 0.0428,0.030 left font FACE.",8.5" tc rgb GREY front
set label 1004 sprintf("%s    %d / %d", MARK, PAGE, PAGES) at screen 0.957,0.030 right font FACE.":Bold,8.5" tc rgb GREY front
set arrow 1001 from screen 0.0428,0.052 to screen 0.957,0.052 nohead lw 0.6 lc rgb FAINT
set margins 0, 0, 0, 0
unset border
unset tics
unset key
unset grid
set xrange [0:1]
set yrange [0:1]
plot 2 notitle
unset label
unset arrow
unset object
reset
load 'style.gp'

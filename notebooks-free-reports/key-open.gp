# key-open.gp - a key of its own across the page: after this comes one plot of `2 notitle` and keyentries, then key-close.gp.
# KEY_ROWS and KEY_COLUMNS say how it is laid out.
set margins 0, 0, 0, 0
set border 0
unset tics
unset grid
unset xlabel
unset ylabel
set xrange [0:1]
set yrange [0:1]
set key at screen 0.957,0.850 right top horizontal Left reverse samplen 2.2 width 0 font FACE.",9.5" maxrows KEY_ROWS maxcols KEY_COLUMNS

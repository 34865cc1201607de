# audit-map.gp - files by compute capability: what runs. Lightness and the text say the same as the colour.
TITLE = "Which GPUs the kernels run on"
FINDING = FIND_MAP
NOTE = AUDIT_ROWS > 0 && AUDIT_COLUMNS > 0 ? "" : "This dataset holds no file with device code."
load 'page.gp'
if (!strlen(NOTE)) {
  set lmargin at screen 0.270
  set rmargin at screen 0.957
  set bmargin at screen 0.100
  set tmargin at screen 0.755
  set border 0
  unset grid
  set xrange [0.5:AUDIT_COLUMNS + 0.5]
  set yrange [larger(AUDIT_ROWS, 4) + 0.5:0.5]
  set xtics () scale 0
  unset xtics
  set x2range [0.5:AUDIT_COLUMNS + 0.5]
  set x2tics () scale 0 font FACE.",10"
  do for [c = 1:int(AUDIT_COLUMNS)] { set x2tics add (SM_NAME[c] c) }
  set ytics () scale 0 font FACE.",9.5"
  set key at screen 0.957,0.846 right top horizontal Left reverse samplen 1.4 width -1 maxcols 5 maxrows 1 font FACE.",9.5"
  SHADES = "#ffffff #00395c #56B4E9 #f5c6a5 #f2f2f2"
  INKS = "#555555 #ffffff #000000 #000000 #a03000"
  NAMES = "no~kernel native all~run,~JIT some~run none~runs"
  SMALL = AUDIT_COLUMNS > 9 ? "8" : "8.5"
  plot for [k = 0:4] 'audit-map.tsv' using ($3 == k ? $1 : NaN):2:($1 - 0.47):($1 + 0.47):($2 - 0.44):($2 + 0.44) with boxxyerror \
         fs solid 1 border lc rgb "#999999" fc rgb word(SHADES, k + 1) notitle, \
       for [k = 0:4] '' using ($3 == k ? $1 : NaN):2:4 with labels font FACE.",".SMALL tc rgb word(INKS, k + 1) notitle, \
       'audit-files.tsv' using (1):1:ytic(2) with points pt 0 notitle, \
       for [k = 0:4] keyentry with boxes fs solid 1 border lc rgb "#999999" fc rgb word(SHADES, k + 1) title join_blank(word(NAMES, k + 1))
}
unset multiplot

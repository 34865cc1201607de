# whatif-strips.gp - where the rows lie in the pool at one step, a strip a policy.
TITLE = "Where the rows lie under each policy"
FINDING = FIND_STRIPS
NOTE = STRIPS > 0 && STRIP_CELLS > 0 ? "" : "This dataset holds no map."
load 'page.gp'
if (!strlen(NOTE)) {
  set lmargin at screen 0.150
  set rmargin at screen 0.957
  set bmargin at screen 0.155
  set tmargin at screen 0.790
  set border 15
  unset grid
  unset colorbox
  SHADES = "#ffffff #d9d9d9 #56B4E9 #00395c"
  set palette maxcolors 4 defined (0 word(SHADES, 1), 1 word(SHADES, 2), 2 word(SHADES, 3), 3 word(SHADES, 4))
  set cbrange [0:3]
  SCALE = POOL >= 2e6 ? 1e6 : POOL >= 2e3 ? 1e3 : 1.0
  set xrange [0:POOL / SCALE]
  set yrange [STRIPS:0]
  set xlabel SCALE == 1e6 ? "slot (million)" : SCALE == 1e3 ? "slot (thousand)" : "slot"
  set ytics font FACE.",10.5" scale 0
  do for [k = 1:int(STRIPS) - 1] { set arrow k from graph 0,first k to graph 1,first k nohead lw 1 lc rgb GREY front }
  set key at screen 0.957,0.840 right top horizontal Left reverse samplen 1.6 width -4 maxcols 4 maxrows 1 font FACE.",9.5"
  plot 'strips.bin' binary array=(int(STRIP_CELLS),int(STRIPS)) format='%uchar' dx=(POOL / SCALE / STRIP_CELLS) dy=1 \
         origin=(POOL / SCALE / STRIP_CELLS / 2.0,0.5) using 1 with image notitle, \
       'strips.tsv' using (0):($1 - 0.5):ytic(2) with points pt 0 notitle, \
       for [k = 1:4] keyentry with boxes fs solid 1 border lc rgb "#444444" fc rgb word(SHADES, k) \
         title join_blank(word("empty held~by~no~running~request other~running~rows the~longest~running~row", k))
}
unset multiplot

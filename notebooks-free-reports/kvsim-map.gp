# kvsim-map.gp - the pool at the end, a cell a slot (or a few), in address order. Free is white and cached pale, all that
# is live is dark; the five largest requests go from dark to light, so that the map reads in grey too.
TITLE = "Map of the pool at the end: who holds what"
FINDING = FIND_MAP
NOTE = MAP_POOL > 0 ? "" : "This dataset holds no slots."
load 'page.gp'
if (MAP_POOL > 0) {
  set lmargin at screen 0.095
  set rmargin at screen 0.700
  set bmargin at screen 0.155
  set tmargin at screen 0.845
  set border 15
  unset grid
  unset colorbox
  # free; cached: of others, of the three largest; live: other, shared, the five largest
  MAP_COLOURS = "#ffffff #ededed #a9c9e4 #efc9a6 #d3ecc6 #3d3d3d #000000 #08395c #9c3d00 #00a87a #cc70a8 #78c4f0"
  set palette maxcolors 12 defined (0 word(MAP_COLOURS,1), 1 word(MAP_COLOURS,2), 2 word(MAP_COLOURS,3), 3 word(MAP_COLOURS,4), \
    4 word(MAP_COLOURS,5), 5 word(MAP_COLOURS,6), 6 word(MAP_COLOURS,7), 7 word(MAP_COLOURS,8), 8 word(MAP_COLOURS,9), \
    9 word(MAP_COLOURS,10), 10 word(MAP_COLOURS,11), 11 word(MAP_COLOURS,12))
  set cbrange [0:11]
  ROW = MAP_WIDTH * MAP_PER_CELL
  SCALE = MAP_POOL >= 2e6 ? 1e6 : MAP_POOL >= 2e3 ? 1e3 : 1.0
  set xrange [0:ROW]
  set yrange [0:MAP_HEIGHT * ROW / SCALE]
  set xlabel "slot within its row of the map"
  set ylabel SCALE == 1e6 ? "address of the row's first slot (million slots)" : SCALE == 1e3 ? "address of the row's first slot (thousand slots)" : "address of the row's first slot (slots)"
  set key at screen 0.715,0.845 left top vertical Left reverse samplen 1.6 spacing 1.5 width 0 font FACE.",10"
  plot 'map.bin' binary array=(int(MAP_WIDTH),int(MAP_HEIGHT)) format='%uchar' dx=MAP_PER_CELL dy=(ROW / SCALE) \
         origin=(MAP_PER_CELL / 2.0,ROW / SCALE / 2.0) using 1 with image notitle, \
       for [k = 1:|MAP_TITLE|] keyentry with boxes fs solid 1 border lc rgb "#444444" fc rgb word(MAP_COLOURS, k) \
         title MAP_SLOTS[k] > 0 || k <= 2 ? MAP_TITLE[k] : ""
}
unset multiplot

# key-close.gp - after the key's plot: axes as style.gp has them, no key.
unset key
set border 3 lw 0.8 lc rgb GREY
set xtics nomirror out scale 0.6 textcolor rgb INK
set ytics nomirror out scale 0.6 textcolor rgb INK
set grid lt 1 lw 0.5 lc rgb "#e2e2e2"

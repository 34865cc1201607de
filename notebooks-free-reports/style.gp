# style.gp - the one look of every page: sizes, colours, line and point types. Loaded after each `reset`.
# cairo draws at 96 dots an inch what it is told in points: 0.765 makes 12 a true 12 pt of a page 842 pt wide.
# Pages are 16:10, as wide as A4 landscape (842 x 526 pt); kvr_text.h has the same size.

FACE = "DejaVu Sans"
PDF_TERMINAL = 'noenhanced size 29.7cm,18.56cm font "'.FACE.',12" fontscale 0.765 linewidth 1.7 dashlength 1 pointscale 1'
PNG_TERMINAL = 'noenhanced size 1684,1052 font "'.FACE.',12" fontscale 1.5 linewidth 1.5 dashlength 1 pointscale 2'
set encoding utf8
set datafile separator "\t"
set datafile missing "NaN"

# Okabe and Ito's colours without the yellow, which is too weak on white. Ordered so that neighbours differ in grey too.
SERIES_COLOURS = "#0072B2 #D55E00 #009E73 #000000 #56B4E9 #CC79A7 #E69F00"
colour(k) = word(SERIES_COLOURS, 1 + int(k) % 7)
# Filled and hollow forms of one shape: measured and modelled.
filled(k) = word("7 5 9 11 13 15", 1 + int(k) % 6) + 0
hollow(k) = word("6 4 8 10 12 14", 1 + int(k) % 6) + 0
# Dashes tell series apart in black and white.
dash(k) = 1 + int(k) % 6
set dashtype 2 (14, 6)
set dashtype 3 (3, 5)
set dashtype 4 (16, 5, 3, 5)
set dashtype 5 (16, 5, 3, 5, 3, 5)
set dashtype 6 (32, 7)
roof_dash(k) = k == 1 ? 1 : k == 2 ? 2 : 4

INK = "#000000"
GREY = "#555555"
FAINT = "#d0d0d0"

set border 3 lw 0.8 lc rgb GREY
set tics nomirror out scale 0.6 textcolor rgb INK
set grid lt 1 lw 0.5 lc rgb "#e2e2e2"
set key font FACE.",10.5" textcolor rgb INK samplen 3.2 spacing 1.15 width 0 noautotitle
set xlabel font FACE.",12.5"
set ylabel font FACE.",12.5"
set pointsize 0.9
set style fill solid 1 noborder

# 1, 10, 100 ... as the exponent's range: whole decades that hold a value, from below and above.
decade_below(v) = 10.0 ** floor(log10(v) + 1e-9)
decade_above(v) = 10.0 ** ceil(log10(v) - 1e-9)
larger(a, b) = a > b ? a : b
smaller(a, b) = a < b ? a : b
# A column's value, 0 where it is missing. From gnuplot 6 on a `$n` that is missing drops the point, whatever the expression round it says.
known(c) = valid(c) ? column(c) : 0

# Entries of a roofline's key: kernels by colour and shape, variants (layouts) by dash, measured and modelled by filled
# and hollow marks. Macros are expanded when a block { } is read, so they must stand here, ahead of the figure script.
KERNEL_KEY = 'for [k = 0:int(KERNELS) - 1] keyentry with points pt filled(k) ps 1.1 lc rgb colour(k) title KERNEL_NAME[k + 1]'
VARIANT_KEY = 'for [v = 0:int(VARIANTS) - 1] keyentry with lines lw 1.8 dt dash(v) lc rgb INK title VARIANT_NAME[v + 1]'
VARIANT_READ_KEY = 'for [v = 0:int(VARIANTS) - 1] keyentry with lines lw 1.8 dt dash(v) lc rgb INK title VARIANT_READS[v + 1] ? VARIANT_NAME[v + 1] : ""'
STATUS_KEY = 'keyentry with points pt 7 ps 1 lc rgb GREY title MEASURED > 0 ? "measured (whisker: range)" : "", '. \
  'keyentry with points pt 6 ps 1 lw 1.4 lc rgb GREY title MODELLED > 0 ? "modelled" : "", '. \
  'keyentry with points pt 2 ps 0.9 lw 1.6 lc rgb GREY title BOUNDED > 0 ? "bound, not a time" : "", '. \
  'keyentry with points pt 1 ps 0.9 lw 1.2 lc rgb GREY title "floor T0"'

# A bound is a cross with an arrow to the side where the time, or the rate, must lie: 0.35 of a decade.
ABOVE_BOUND = 10 ** 0.35 - 1
BELOW_BOUND = 10 ** -0.35 - 1

# "a~b" as "a b": words of a list that hold a blank.
join_blank(w) = strstrt(w, "~") ? join_blank(substr(w, 1, strstrt(w, "~") - 1)." ".substr(w, strstrt(w, "~") + 1, strlen(w))) : w

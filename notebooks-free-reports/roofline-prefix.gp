# roofline-prefix.gp - the prefix axis: powers of two from 2k to 256k, more where the points need it. PREFIX_LABELS, if set,
# is how many labels there is room for.
X_LOW = PREFIX_LOW > 0 ? smaller(2048.0, 2.0 ** floor(log10(PREFIX_LOW) / log10(2.0) - 0.01)) : 2048.0
X_HIGH = PREFIX_HIGH > 0 ? larger(262144.0, 2.0 ** ceil(log10(PREFIX_HIGH) / log10(2.0) + 0.01)) : 262144.0
if (!exists("PREFIX_LABELS")) { PREFIX_LABELS = 10 }
set logscale x 2
set xrange [X_LOW / 1.001:X_HIGH * 1.001]
binary(e) = e < 10 ? sprintf("%d", 2 ** e) : e < 20 ? sprintf("%dk", 2 ** (e - 10)) : e < 30 ? sprintf("%dM", 2 ** (e - 20)) : \
  e < 40 ? sprintf("%dG", 2 ** (e - 30)) : sprintf("%dT", 2 ** (e - 40))
set xtics nomirror out textcolor rgb INK
set xtics ("" X_LOW)
OCTAVES = log10(X_HIGH / X_LOW) / log10(2.0)
EACH = 2 * int(larger(1, ceil(OCTAVES / (2.0 * PREFIX_LABELS))))
do for [e = 0:60:EACH] { set xtics add (binary(e) 2.0 ** e) }
do for [e = 1:60] { if (e % EACH != 0) { set xtics add ("" 2.0 ** e 1) } }
undefine PREFIX_LABELS

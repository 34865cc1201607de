# roofline-prefix.gp - the prefix axis: powers of two from 2k to 256k, more where the points need it.
X_LOW = PREFIX_LOW > 0 ? smaller(2048.0, 2.0 ** floor(log10(PREFIX_LOW) / log10(2.0) - 0.01)) : 2048.0
X_HIGH = PREFIX_HIGH > 0 ? larger(262144.0, 2.0 ** ceil(log10(PREFIX_HIGH) / log10(2.0) + 0.01)) : 262144.0
set logscale x 2
set xrange [X_LOW / 1.001:X_HIGH * 1.001]
binary(e) = e < 10 ? sprintf("%d", 2 ** e) : e < 20 ? sprintf("%dk", 2 ** (e - 10)) : sprintf("%dM", 2 ** (e - 20))
set xtics nomirror out textcolor rgb INK
set xtics ("" X_LOW)
do for [e = 0:28:2] { set xtics add (binary(e) 2.0 ** e) }
do for [e = 1:27:2] { set xtics add ("" 2.0 ** e 1) }

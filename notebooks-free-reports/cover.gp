# cover.gp - the first page: cover-labels.gp is written from the dataset (verdict, problem, provenance).
set multiplot
load 'cover-labels.gp'
load 'frame.gp'
unset multiplot

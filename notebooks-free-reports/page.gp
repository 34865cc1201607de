# page.gp - opens a page: title, finding and footer. The figure script sets TITLE, FINDING and NOTE (what is said in the
# middle of a page that has nothing to draw; else ""), loads this, draws its panels between y 0.10 and 0.85 of the
# screen, and ends with `unset multiplot`.
set multiplot
set label 1001 TITLE at screen 0.0428,0.950 left font FACE.":Bold,19" front
set label 1002 FINDING at screen 0.0428,0.902 left font FACE.",12" tc rgb "#333333" front
if (strlen(NOTE)) { set label 1005 NOTE at screen 0.5,0.5 center font FACE.",15" tc rgb GREY front }
load 'frame.gp'

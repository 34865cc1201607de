# panels.gp - lays out PANELS panels below HIGH of the screen; `load 'panel.gp'` then sets the margins of panel number
# PANEL.
ACROSS = PANELS <= 1 ? 1 : PANELS <= 4 ? 2 : PANELS <= 6 ? 3 : 4
DOWN = int(ceil(PANELS / (ACROSS * 1.0)))
LEFT = 0.095; RIGHT = 0.957; LOW = 0.160
if (!exists("HIGH")) { HIGH = 0.760 }
GAP_X = 0.022; GAP_Y = 0.105
PANEL_W = (RIGHT - LEFT - (ACROSS - 1) * GAP_X) / ACROSS
PANEL_H = (HIGH - LOW - (DOWN - 1) * GAP_Y) / DOWN

# panel.gp - the margins of panel number PANEL (from 0) as panels.gp laid them out; PANEL_LEFT and PANEL_LAST say whether it
# stands at the left edge and in the last row of its column.
PANEL_C = PANEL % ACROSS
PANEL_R = PANEL / ACROSS
set lmargin at screen LEFT + PANEL_C * (PANEL_W + GAP_X)
set rmargin at screen LEFT + PANEL_C * (PANEL_W + GAP_X) + PANEL_W
set tmargin at screen HIGH - PANEL_R * (PANEL_H + GAP_Y)
set bmargin at screen HIGH - PANEL_R * (PANEL_H + GAP_Y) - PANEL_H
PANEL_LEFT = PANEL_C == 0
PANEL_LAST = PANEL + ACROSS >= PANELS

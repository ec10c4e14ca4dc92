"""The timeline: the canvas of lanes, and the pane that reads the lanes, finds rows in them and exports them."""

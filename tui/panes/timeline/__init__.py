"""The timeline: the canvas of lanes, and the pane that reads, places and exports it."""

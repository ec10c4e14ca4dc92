"""Building blocks of panes and overlays: header and tabs, prompts, drawn text, sections of details."""

"""What panes and overlays are built of: the header and tabs, prompts, drawn text, sections of details."""

"""Two runs made ready to be compared: matched, stratified, sampled."""

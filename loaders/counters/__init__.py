"""Files of counters: what a monitor sampled, alone or beside a trace. A file here for each family of formats.

All of them become rows of ``metrics``: a counter is named as recorded, without the unit in its heading; values are in
natural units (MHz, B/s, B, W, %, C); what the monitor could not read is null. A file knows when its samples were taken
in one of the ways that ``times`` lists, and ``recording`` puts that into ``info``.
"""

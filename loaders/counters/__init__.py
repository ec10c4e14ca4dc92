"""Counter files: samples of a monitor, alone or next to a trace. One module per family of formats.

All become rows of ``metrics``: counters are named as recorded, without the unit in the heading; values are in natural
units (MHz, B/s, B, W, %, C), and null where the monitor could not read them. Sample times are on one of the clocks of
``times``; ``recording`` puts the clock into ``info``.
"""

"""Facts that put the findings in context: how busy devices are, what fills them, what was replayed."""

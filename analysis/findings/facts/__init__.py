"""What a reader needs to judge the findings: how busy devices are, what fills them, what was replayed."""

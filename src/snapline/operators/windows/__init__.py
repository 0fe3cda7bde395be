"""Windows of keyed streams."""

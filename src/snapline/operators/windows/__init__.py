"""Window operators of keyed streams."""

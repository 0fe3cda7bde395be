"""Replays small scripts against the machines of `protocol/`."""

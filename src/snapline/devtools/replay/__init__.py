"""Replays scripts against the machines of `protocol/`."""

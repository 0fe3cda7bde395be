"""Keyed and operator state: handles, backends, timers and their snapshots."""

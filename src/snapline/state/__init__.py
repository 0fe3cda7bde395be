"""Keyed and operator state: descriptors, backends, timers."""

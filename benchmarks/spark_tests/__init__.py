"""Spark's own tests of `transformWithState`, run on Snapline with their assertions unchanged."""

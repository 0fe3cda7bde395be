"""Aggregates per key."""

"""Operators: transformations, aggregates, joins and windows, and the operator side of sources and sinks."""

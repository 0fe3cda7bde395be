"""Streams of changes: results that are put right later, and the operators that make and take them."""

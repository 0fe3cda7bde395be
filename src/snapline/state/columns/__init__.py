"""Columns: the values of a state, by slot."""

"""Queries as trees of plain data, and the rules that rewrite them. No Spark here."""

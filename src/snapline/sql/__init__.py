"""Streaming DataFrames and SQL: Spark parses and analyses a query, Snapline runs it."""

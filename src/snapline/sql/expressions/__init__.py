"""Expressions of Spark SQL on Arrow batches, with Spark's meaning."""

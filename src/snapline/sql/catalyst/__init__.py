"""Reads the plans that Spark's analyser made, over py4j."""

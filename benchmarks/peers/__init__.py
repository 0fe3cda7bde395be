"""Compares Snapline with Flink, Spark Structured Streaming and bytewax: the same work on the same machine."""

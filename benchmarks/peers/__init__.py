"""Snapline beside its peers: Flink, Spark Structured Streaming and bytewax, with the same work on the same machine."""

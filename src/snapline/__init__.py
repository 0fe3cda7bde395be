"""Snapline: consistent checkpoints for Python pipelines that run on Spark."""

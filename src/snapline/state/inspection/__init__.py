"""Snapshots read without a job, for `snapline inspect`."""

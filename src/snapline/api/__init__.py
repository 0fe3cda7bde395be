"""The stream API: jobs, streams and their operators."""

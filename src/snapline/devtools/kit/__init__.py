"""Jobs, stores and processes that our own tests, benchmarks, chaos runs and the demo share."""

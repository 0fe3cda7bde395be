"""Real servers on loopback for tests and benchmarks."""

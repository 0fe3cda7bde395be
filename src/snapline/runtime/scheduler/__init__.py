"""What the shells run on, in production and in the simulator: time, timers, mail and blocking calls."""

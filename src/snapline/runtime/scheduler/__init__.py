"""What the shells stand on: time, timers, mail, and blocking calls, in production and under the simulator."""

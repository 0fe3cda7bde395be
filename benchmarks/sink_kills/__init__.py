"""Kills of operator processes and drivers at the worst moments of a commit, and zombies, for each exactly-once sink."""

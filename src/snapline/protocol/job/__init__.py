"""The life of a job: attempts, restarts, slots, failures, and its end."""

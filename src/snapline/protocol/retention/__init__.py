"""Which snapshots and objects are kept, and what may be deleted."""

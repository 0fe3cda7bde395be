"""A slot: its supervisor, its operator process, and the tasks of an attempt."""

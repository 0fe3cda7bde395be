"""One subtask's part in checkpoints."""

"""What a subtask does with barriers."""

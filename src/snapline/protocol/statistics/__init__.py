"""What monitoring shows of checkpoints."""

"""When a checkpoint starts, who takes part, and when it is complete."""

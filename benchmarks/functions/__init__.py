"""Four functions of rows, as people write them, here and in other systems."""

"""Documentation pages made from the code."""

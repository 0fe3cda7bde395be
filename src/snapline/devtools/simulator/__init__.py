"""The simulator: production code on a seeded kernel, under every fault."""

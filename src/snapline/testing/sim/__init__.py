"""The deterministic simulator: the real machines of `protocol/` on a seeded scheduler, under every fault there is."""

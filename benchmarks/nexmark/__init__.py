"""Nexmark: the auction events used to measure streaming systems, its queries, and a proof of the answers."""

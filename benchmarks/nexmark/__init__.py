"""Nexmark: the auctions and bids that streaming systems are measured with, its queries, and a proof of the answers."""

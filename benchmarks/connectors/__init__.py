"""Kafka to Kafka beside the peers, and what exactly once costs each sink."""

"""Durable storage: object stores, snapshots and their metadata, journals."""

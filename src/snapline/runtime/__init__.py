"""Threads and sockets around the protocol core."""

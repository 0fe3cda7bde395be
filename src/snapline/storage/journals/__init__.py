"""The journal of a job: its stores, and the client a driver uses."""

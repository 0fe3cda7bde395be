"""Delta Lake: tables as sinks and sources."""

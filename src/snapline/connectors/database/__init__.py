"""Any database with a Python driver as a sink."""

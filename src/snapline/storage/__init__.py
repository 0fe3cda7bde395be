"""Where snapshots live: stores, handles, metadata."""

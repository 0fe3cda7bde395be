"""The RocksDB backend: keyed state on local disk."""

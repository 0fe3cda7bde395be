"""Data sources that users write for PySpark, as sources and sinks."""

"""What users write with: jobs, streams, sources and sinks."""

"""What users and connectors implement: operators, sources, sinks, hooks, functions, schemas."""

"""What becomes of the rows: sources, transformations, aggregates and sinks as operators."""

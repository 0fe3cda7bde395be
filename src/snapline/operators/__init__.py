"""Windows, joins, aggregates, process functions."""

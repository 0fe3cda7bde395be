"""A job with windows, a join, timers and two-phase sinks on a standalone Spark cluster, under every kind of trouble."""

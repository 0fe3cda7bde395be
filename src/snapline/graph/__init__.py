"""From the logical graph to the execution plan."""

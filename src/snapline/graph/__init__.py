"""From the logical graph to the execution plan, and to what is shipped to the executors."""

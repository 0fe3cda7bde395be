"""Operators that run parts of a query: projections, filters, groups with an end, tables."""

from __future__ import annotations

# Enters the Python functions among the expressions, also in operator processes.
from snapline.sql.operators import python_udfs as python_udfs

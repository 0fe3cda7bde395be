"""All rules, in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snapline.sql.plans.filter_push_down import with_filters_down
from snapline.sql.plans.lateral_joins import without_lateral_joins
from snapline.sql.plans.list_aggregates import with_lists_joined
from snapline.sql.plans.needed_columns import pruned
from snapline.sql.plans.partition_windows import without_partition_windows
from snapline.sql.plans.peak_rows import with_peaks_ranked
from snapline.sql.plans.plan_cleanup import cleaned, with_static_leaves
from snapline.sql.plans.random_keys import check_keys
from snapline.sql.plans.refusals import check_functions
from snapline.sql.plans.subqueries import without_subqueries
from snapline.sql.plans.trees import Plan


def prepared(plan: Plan, value_of: Callable[[Plan], Any]) -> Plan:
    """The plan as it is run: without lateral joins, subqueries and what means nothing, filters low, columns few.

    `value_of` runs a subquery that does not stream, as in `without_subqueries`. Raises `ConfigurationError` for random
    keys and functions in Scala or Java.
    """
    plan = without_subqueries(without_lateral_joins(plan), value_of)
    check_keys(plan)
    plan = with_filters_down(cleaned(with_static_leaves(plan)))
    plan = with_lists_joined(without_partition_windows(with_peaks_ranked(plan)))
    plan = pruned(cleaned(with_filters_down(cleaned(plan))))
    check_functions(plan)
    return plan

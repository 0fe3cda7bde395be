from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.errors import ConfigurationError
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.trees import Attribute, Plan

N = Attribute(10, "n", pa.int64(), False)
ROWS = [(n, kit.second(n), user, 1) for n, user in enumerate(["a", "b", "a", None, "b", "c"])]


def counts() -> Plan:
    keys = [reference(kit.USER)]
    return kit.aggregate(kit.relation(), keys, [*keys, kit.alias(N, kit.aggregated(kit.count()))])


def test_counts_that_some_user_has_now() -> None:
    below = kit.project(counts(), N)
    plan = Plan("Distinct", below.output, (below,), {}, {}, True, "Distinct")
    assert kit.run(plan, ROWS) == Counter([(2,), (1,)])


def test_one_user_of_each_count() -> None:
    below = counts()
    plan = Plan("Deduplicate", below.output, (below,), {"keys": (reference(N),)}, {}, True, "Deduplicate")
    found = kit.run(plan, ROWS)
    assert sorted(row[1] for row in found) == [1, 2]
    assert found - Counter([("a", 2), ("b", 2), (None, 1), ("c", 1)]) == Counter()


def test_within_a_watermark_rows_must_be_final() -> None:
    below = counts()
    keys = {"keys": (reference(N),)}
    plan = Plan("DeduplicateWithinWatermark", below.output, (below,), keys, {}, True, "Deduplicate")
    with pytest.raises(ConfigurationError, match=r"DeduplicateWithinWatermark .*rows that change later"):
        kit.run(plan, ROWS)

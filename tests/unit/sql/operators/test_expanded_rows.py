from __future__ import annotations

from collections import Counter

import pyarrow as pa
from tests import sql_kit as kit

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.trees import Attribute, Plan


def test_each_row_comes_once_for_each_projection() -> None:
    user, number = Attribute(10, "user", pa.string()), Attribute(11, "set", pa.int64())
    rows = (reference(kit.USER), kit.literal(0), kit.literal(None, pa.string()), kit.literal(1))
    arguments = {"projections": (2, 2)}
    plan = Plan("Expand", (user, number), (kit.relation(),), {"projections": rows}, arguments, True, "Expand")
    assert kit.run(plan, [(1, kit.second(1), "ann", 1)]) == Counter([("ann", 0), (None, 1)])

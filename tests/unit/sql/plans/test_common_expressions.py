from __future__ import annotations

import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.errors import ConfigurationError
from snapline.sql.plans.common_expressions import without_common_expressions
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.trees import Expression


def between(value: Expression) -> Expression:
    """`value > 1 and value > 2`, as Catalyst writes it for a value that is used twice."""
    use = kit.call("CommonExpressionRef", pa.int64(), id={"id": 5})
    body = kit.call("And", pa.bool_(), kit.greater(use, kit.literal(1)), kit.greater(use, kit.literal(2)))
    return kit.call("With", pa.bool_(), body, kit.call("CommonExpressionDef", pa.int64(), value, id={"id": 5}))


def test_a_common_expression_stands_where_it_is_used() -> None:
    price = reference(kit.PRICE)
    found = without_common_expressions(between(price))
    assert [each.children[0] for each in found.children] == [price, price]


def test_a_random_value_cannot_be_computed_twice() -> None:
    random = kit.call("Rand", pa.int64(), deterministic=False)
    with pytest.raises(ConfigurationError, match="used twice"):
        without_common_expressions(between(random))

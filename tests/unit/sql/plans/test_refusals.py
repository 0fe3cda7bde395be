from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from tests import sql_kit as kit

from snapline.errors import ConfigurationError
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.refusals import check_functions, refusal
from snapline.sql.plans.trees import Attribute


def test_a_refusal_names_class_reason_fragment_and_advice() -> None:
    error = refusal(kit.call("ScalaUDF", pa.int64(), reference(kit.ID)), "it is Java")
    assert str(error) == (
        "the expression ScalaUDF is not supported: it is Java. It stands in: scalaudf(id). What to do: write the "
        "function in Python, as a UDF, a pandas UDF or an Arrow UDF"
    )


def test_a_long_fragment_is_cut() -> None:
    assert len(str(refusal(kit.call("Odd", pa.int64(), *[reference(kit.ID)] * 500)))) < 500


@pytest.mark.parametrize(("kind", "advice"), [("ScalaUDF", "in Python"), ("ScalaAggregator", "transformWithState")])
def test_functions_in_scala_are_refused_wherever_they_are(kind: str, advice: str) -> None:
    value = kit.call("Explode", pa.int64(), kit.call(kind, pa.int64(), reference(kit.ID)))
    plan = kit.project(kit.relation(), kit.alias(Attribute(10, "odd", pa.int64()), value))
    with pytest.raises(ConfigurationError, match=rf"expression {kind} .*stands in: {kind.lower()}\(id\).*{advice}"):
        check_functions(kit.where(plan, kit.greater(reference(kit.ID), kit.literal(1))))
    check_functions(replace(plan, is_streaming=False))

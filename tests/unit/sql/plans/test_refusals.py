from __future__ import annotations

import pyarrow as pa
from tests import sql_kit as kit

from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.refusals import refusal


def test_a_refusal_names_class_reason_fragment_and_advice() -> None:
    error = refusal(kit.call("ScalaUDF", pa.int64(), reference(kit.ID)), "it is Java")
    assert str(error) == (
        "the expression ScalaUDF is not supported: it is Java. It stands in: scalaudf(id). What to do: write the "
        "function in Python, as a UDF, a pandas UDF or an Arrow UDF"
    )


def test_a_long_fragment_is_cut() -> None:
    assert len(str(refusal(kit.call("Odd", pa.int64(), *[reference(kit.ID)] * 500)))) < 500

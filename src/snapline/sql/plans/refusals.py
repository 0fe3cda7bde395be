"""What does not run, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from snapline.errors import ConfigurationError
from snapline.sql.plans.trees import Expression, Plan

_LENGTH = 200

_FUNCTION = "write the function in Python, as a UDF, a pandas UDF or an Arrow UDF"
_AGGREGATE = "use aggregates of SQL, or a StatefulProcessor with transformWithState"

_FUNCTIONS_OF_THE_JVM: Final[Mapping[str, str]] = {
    "ScalaUDF": _FUNCTION,
    "HiveGenericUDF": _FUNCTION,
    "HiveSimpleUDF": _FUNCTION,
    "HiveGenericUDTF": "write the function in Python, as a UDTF",
    "ScalaAggregator": _AGGREGATE,
    "ScalaUDAF": _AGGREGATE,
    "HiveUDAFFunction": _AGGREGATE,
}

_INSTEAD: Final[Mapping[str, str]] = {
    **_FUNCTIONS_OF_THE_JVM,
    "Intersect": "use a left semi join",
    "Except": "use a left anti join",
    "Sample": "filter by a hash of a column: pmod(hash(id), 100) < 5",
    "GlobalLimit": "put the limit behind an ORDER BY, use complete mode, or use row_number() per key",
    "Sort": "a stream has no end to sort up to; sort in complete mode, or use row_number() per key",
    "Offset": "a stream has no order to skip rows of",
    "FlatMapGroupsWithState": "use transformWithState of PySpark",
    "MapGroups": "write it in PySpark",
    "TypedFilter": "write the condition with columns",
    "MapElements": "write it with columns, or in PySpark",
    "ScriptTransformation": "use a Python UDF or mapInPandas",
    "StateStoreV2": "read state with `python -m snapline inspect`",
}


def refusal(what: Plan | Expression, why: str = "", instead: str = "") -> ConfigurationError:
    """The error for a node or expression that does not run here: its class, the fragment, why, and what to do."""
    sort = "expression" if isinstance(what, Expression) else "operator"
    reason = f": {why}" if why else ""
    advice = instead or _INSTEAD.get(what.kind, "rewrite this part, or run the query with Spark's own writeStream")
    return ConfigurationError(
        f"the {sort} {what.kind} is not supported{reason}. It stands in: {_cut(what.text)}. What to do: {advice}"
    )


def check_functions(plan: Plan) -> None:
    """Raises `ConfigurationError` if a part that streams calls a user's function in Scala or Java, however deep."""
    for node in plan.walk():
        for each in (part for found in node.expressions.values() for whole in found for part in whole.walk()):
            if node.is_streaming and each.kind in _FUNCTIONS_OF_THE_JVM:
                raise refusal(each, "it runs in a JVM alone")


def _cut(text: str) -> str:
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}..."

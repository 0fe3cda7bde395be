"""Error messages that lead to the right call, for missing methods and for operators that cannot be built."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from snapline.errors import ConfigurationError

Kind = TypeVar("Kind", bound=type)

_SPARK: Mapping[str, str] = {
    name: advice
    for names, advice in (
        ("agg", "key_by(...).aggregate(n=snapline.count(), ...)"),
        ("alias", "select(name=...) or rename({'old': 'new'})"),
        ("cogroup", "connect(other), of two keyed streams"),
        ("distinct dropDuplicates drop_duplicates", "key_by(...).deduplicate()"),
        ("dropDuplicatesWithinWatermark", "key_by(...).deduplicate(ttl=...)"),
        ("explode", "flat_map(...) or map_batches(...)"),
        ("flatMap", "flat_map(...)"),
        ("foreach foreachBatch", "sink(snapline.sinks.ForeachBatch(...), uid=...)"),
        ("groupBy groupby group_by keyBy", "key_by(...)"),
        ("mapInArrow", "map_batches(...)"),
        ("mapInPandas", "map_batches(..., format='pandas')"),
        ("orderBy sort", "key_by(...).top_n(...); an endless stream cannot be sorted"),
        ("printSchema", "schema"),
        ("repartition", "rebalance()"),
        ("selectExpr", "select(name=pc.field(...) ...)"),
        ("show toArrow", "collect(where), which returns a pyarrow.Table"),
        ("toDF", "to_dataframe(spark)"),
        ("toPandas", "collect(where).to_pandas()"),
        ("transformWithState", "key_by(...).transform_with_state(...)"),
        ("transformWithStateInPandas", "key_by(...).transform_with_state(..., format='pandas')"),
        ("unionAll unionByName", "union(...)"),
        ("where", "filter(...)"),
        ("withColumn withColumns", "with_columns(name=...)"),
        ("withColumnRenamed", "rename({'old': 'new'})"),
        ("withWatermark", "with_watermarks(snapline.Watermarks(column, delay='5s'))"),
        ("write writeStream", "sink(snapline.sinks.Files(directory), uid=...)"),
    )
    for name in names.split()
}
"""Names from PySpark, and likely slips, with the calls that streams have instead."""


def missing(owner: object, name: str, *others: tuple[type, str]) -> AttributeError:
    """The error to raise if `owner` has no attribute `name`.

    `others` are classes that may have it, each with the call that leads there.
    """
    kind = type(owner)
    text = f"{kind.__name__!r} object has no attribute {name!r}"
    if not name.startswith("_"):
        text += _advice(kind, name, others)
    return AttributeError(text)


def _advice(kind: type, name: str, others: tuple[tuple[type, str], ...]) -> str:
    for other, how in others:
        if hasattr(other, name):
            return f"; {other.__name__} has it: {how}"
    if name in _SPARK:
        written = _SPARK[name]
        return f"; write {written if hasattr(kind, 'key_by') else written.removeprefix('key_by(...).')}"
    known = [found for found in dir(kind) if not found.startswith("_")]
    near = get_close_matches(name, known, 1)
    return f". Did you mean {near[0]!r}?" if near else ""


def names_its_operators(kind: Kind) -> Kind:
    """Class decorator: errors of methods with `uid=` start with that uid, so that the user finds the call."""
    for name, found in list(vars(kind).items()):
        if inspect.isfunction(found) and "uid" in inspect.signature(found).parameters:
            setattr(kind, name, _naming(found))
    return kind


def _naming(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except ConfigurationError as error:
            uid = inspect.signature(method).bind_partial(*arguments, **named).arguments.get("uid")
            if isinstance(uid, str) and repr(uid) not in str(error):
                error.args = (f"operator {uid!r}: {error}", *error.args[1:])
            raise

    return call

"""Arguments of `map`, `filter` and `map_batches`, checked when the job is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from snapline.api.expressions import check_predicate
from snapline.contracts.dead_letters import OnError
from snapline.contracts.operator import Operator
from snapline.contracts.schemas import checked_schema, empty_batch
from snapline.errors import ConfigurationError
from snapline.operators.batch_formats import Format, make_format
from snapline.operators.projection import FilterExpression
from snapline.operators.transforms import Filter, FilterRows


def checked_function(call: str, function: Any) -> Callable[..., Any]:
    """Returns the function; `ConfigurationError` if it is not one. `call` is the method the user called."""
    if not callable(function):
        raise ConfigurationError(f"{call}({function!r}): give a function")
    checked: Callable[..., Any] = function
    return checked


def filter_operator(predicate: Any, format: str | None, schema: pa.Schema, on_error: OnError) -> Operator:
    """The operator that keeps the rows for which an expression or a function is true."""
    if isinstance(predicate, pc.Expression):
        if format is not None:
            raise ConfigurationError(f"filter: format={format!r} is for batch functions; leave it out")
        check_predicate(predicate, schema)
        return FilterExpression(predicate, on_error)
    if not callable(predicate):
        raise ConfigurationError(
            f"filter({predicate!r}): give an expression such as pc.field('value') > 0, or a function of a row"
        )
    if format is None:
        return FilterRows(predicate, on_error)
    return Filter(predicate, make_format(format, "filter"), on_error)


def inferred_schema(function: Callable[[Any], Any], schema: pa.Schema, form: Format) -> pa.Schema:
    """The schema of a function's result, found by calling it with an empty batch."""
    advice = "give the schema of its result with map_batches(..., schema='user STRING, n BIGINT')"
    if not form.shows_schema:
        raise ConfigurationError(f"map_batches: rows do not show their schema; {advice}")
    try:
        made = next(form.batches(function(form.given(empty_batch(schema))), None, "map_batches"), None)
    except Exception as error:
        raise ConfigurationError(
            f"map_batches: the function cannot be called with an empty batch, {type(error).__name__}: {error}; {advice}"
        ) from error
    if made is None:
        raise ConfigurationError(f"map_batches: the function returns nothing for an empty batch; {advice}")
    for field in made.schema:
        if pa.types.is_null(field.type):
            raise ConfigurationError(
                f"map_batches: from an empty batch the type of the column {field.name!r} is unknown; {advice}"
            )
    found = [_as_before(field, schema) if form.changes_width else field for field in made.schema]
    return checked_schema(pa.schema(found), "map_batches()")


def _as_before(field: pa.Field, schema: pa.Schema) -> pa.Field:
    """A result column with the type of the input column of the same name, if only their widths differ."""
    if field.name not in schema.names:
        return field
    before = schema.field(field.name).type
    return field.with_type(before) if _narrow(field.type) == _narrow(before) else field


def _narrow(kind: pa.DataType) -> pa.DataType:
    """A type with short offsets instead of long ones and views, nested types included."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_narrow(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(inner.name, _narrow(inner.type)) for inner in kind])
    return kind

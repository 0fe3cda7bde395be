"""Shapes of states."""

from __future__ import annotations

import pyarrow as pa
import pytest

from snapline.errors import RestoreError
from snapline.state.batch_keys import KeyTypes
from snapline.state.state_info import StateInfo, StateKind, ValueEncoding
from snapline.state.state_shape import Shape, stored_shape
from snapline.state.state_types import OBJECT, StateType
from snapline.state.value_tables import Layout

KEY = KeyTypes(pa.string())
INT, LONG = StateType(pa.int32()), StateType(pa.int64())


def test_a_shape_in_words() -> None:
    layout = Layout(KEY, KeyTypes(pa.int64(), "namespace"), KeyTypes(pa.string(), "map key"))
    assert str(Shape(StateKind.MAP, layout, OBJECT)) == "map of any Python object under namespace int64, map_key string"
    assert str(Shape(StateKind.VALUE, Layout(KEY), LONG)) == "value of int64"


def test_shapes_are_alike_whatever_their_values_are() -> None:
    wide, narrow = (Shape(StateKind.VALUE, Layout(KEY), kind) for kind in (LONG, INT))
    assert wide.is_like(narrow)
    assert not wide.is_like(Shape(StateKind.REDUCING, Layout(KEY), LONG))
    assert not wide.is_like(Shape(StateKind.VALUE, Layout(KEY, KeyTypes(pa.int64(), "namespace")), LONG))


def test_the_shape_of_stored_state() -> None:
    info = StateInfo("op", "seen", StateKind.LIST, 4, ValueEncoding.PICKLE)
    schema = pa.schema([("key", pa.string()), ("position", pa.int64()), ("value", pa.binary())])
    shape = stored_shape(KEY, info, schema)
    assert str(shape) == "list of any Python object under position int64"
    with pytest.raises(RestoreError, match="saved with keys of the type string, and is keyed by int64 now"):
        stored_shape(KeyTypes(pa.int64()), info, schema)

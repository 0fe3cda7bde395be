"""An operator that overrides nothing else just passes through whatever comes."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pytest

from snapline.contracts.operator import Operator
from snapline.errors import UserCodeError


class Through(Operator):
    def process(self, batch: pa.RecordBatch, input_index: int) -> None: ...


def test_nothing_holds_up_the_task_by_default() -> None:
    operator, context = Through(), cast(Any, object())
    operator.open(context)
    assert operator.context is context
    assert operator.idle()
    assert operator.next_wakeup_ms() is None
    assert not any((operator.is_full, operator.is_busy, operator.has_unfinished_work, operator.makes_watermarks))
    assert operator.late_rows == 0
    assert operator.make_coordinator() is None


def test_an_event_that_nobody_handles_is_an_error() -> None:
    with pytest.raises(UserCodeError, match="the coordinator of Through has sent 'x', but the operator has no method"):
        Through().handle_event("x")


def test_an_operator_has_to_process() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Operator()  # type: ignore[abstract]

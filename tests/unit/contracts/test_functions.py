"""Functions that users subclass: what may be left out, and what may not."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

import snapline as sl
from snapline.contracts.contexts import BatchContext, ProcessContext
from snapline.errors import UserCodeError


class Rows(sl.ProcessFunction):
    def process(self, row: dict[str, Any], context: ProcessContext) -> None: ...


class Batches(sl.BatchProcessFunction):
    def process_batch(self, batch: pa.RecordBatch, context: BatchContext) -> None: ...


def test_a_timer_without_a_method_for_it_is_an_error_of_the_user() -> None:
    context = cast(Any, None)
    Rows().open(context)
    Rows().close()
    with pytest.raises(UserCodeError, match="a timer for 5 is due, but the function has no method on_timer"):
        Rows().on_timer(5, context)
    with pytest.raises(UserCodeError, match="2 timers are due, but the function has no method on_timers"):
        Batches().on_timers(cast(Any, np.arange(2)), context)


@pytest.mark.parametrize("kind", [sl.ProcessFunction, sl.CoProcessFunction, sl.BatchProcessFunction, sl.AsyncFunction])
def test_a_function_has_to_process_something(kind: type[Any]) -> None:
    with pytest.raises(TypeError, match="abstract"):
        kind()

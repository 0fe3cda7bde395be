from __future__ import annotations

import pytest

from snapline.sql.expressions.registry import ARGUMENT_ORDERS, FORMS, KERNELS, SparkError, form, kernel


def test_every_expression_has_one_maker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KERNELS, "Known", lambda _expression: None)
    monkeypatch.setitem(FORMS, "KnownForm", lambda _expression, _compile: None)
    with pytest.raises(AssertionError, match="two makers"):
        kernel("Known")(lambda _expression: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(AssertionError, match="two makers"):
        form("KnownForm")(lambda _expression, _compile: None)  # type: ignore[arg-type,return-value]


def test_the_order_of_arguments_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in (KERNELS, ARGUMENT_ORDERS):
        monkeypatch.delitem(table, "New", raising=False)
    kernel("New", order=(1, 0))(lambda _expression: None)  # type: ignore[arg-type,return-value]
    assert ARGUMENT_ORDERS.pop("New") == (1, 0)
    KERNELS.pop("New")


def test_errors_carry_their_condition() -> None:
    error = SparkError("DIVIDE_BY_ZERO", "no")
    assert error.condition == "DIVIDE_BY_ZERO"
    assert str(error) == "[DIVIDE_BY_ZERO] no"

"""Which Catalyst expressions there are here, and what makes each.

A *kernel* computes an expression from the values of its children. A *form* is for expressions that decide which of
their children are evaluated, for which rows or how often: conditionals, lambda functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa

from snapline.sql.expressions.frame import Frame, Value
from snapline.sql.plans.trees import Expression

Evaluator: TypeAlias = Callable[[Frame], Value]
"""Computes an expression for the rows of a frame. Raises `SparkError` where Spark does."""

Kernel: TypeAlias = Callable[[Sequence[Value], int], Value]
"""Computes an expression from the values of its children, for a number of rows. Not called for constant folding."""

KernelMaker: TypeAlias = Callable[[Expression], Kernel]
"""Returns the kernel for an expression; looks at types, literals and eval mode once. Raises `UnsupportedError`."""

FormMaker: TypeAlias = Callable[[Expression, Callable[[Expression], Evaluator]], Evaluator]
"""Returns the evaluator of an expression; the second argument compiles a child."""

GoesOn: TypeAlias = Callable[[Expression, pa.Array], pa.Array]
"""For each row, whether the arguments after this one are computed."""

KERNELS: dict[str, KernelMaker] = {}
ARGUMENT_ORDERS: dict[str, Sequence[int] | None] = {}
GOING_ON: dict[str, GoesOn] = {}
FORMS: dict[str, FormMaker] = {}


class UnsupportedError(Exception):
    """This expression, or this use of it, does not run here; says what to write instead where there is something."""


class SparkError(Exception):
    """What Spark raises for these values. `condition` is Spark's name of the error, such as `DIVIDE_BY_ZERO`."""

    def __init__(self, condition: str, message: str) -> None:
        super().__init__(f"[{condition}] {message}")
        self.condition = condition


def kernel(
    *kinds: str, reads_all: bool = False, order: Sequence[int] = (), goes_on: GoesOn | None = None
) -> Callable[[KernelMaker], KernelMaker]:
    """Enter a maker for these classes of expressions.

    Where an argument is null, Spark does not compute those after it, and so raises none of their errors. `order` tells
    the order of arguments if it is not from left to right, and `goes_on` what else than null makes Spark stop. With
    `reads_all`, Spark computes all arguments for all rows: for functions whose value may be other than null where an
    argument is null.
    """

    def enter(maker: KernelMaker) -> KernelMaker:
        for kind in kinds:
            assert kind not in KERNELS, f"{kind} has two makers"
            KERNELS[kind] = maker
            ARGUMENT_ORDERS[kind] = None if reads_all else order
            if goes_on is not None:
                GOING_ON[kind] = goes_on
        return maker

    return enter


def form(*kinds: str) -> Callable[[FormMaker], FormMaker]:
    """Enter a maker of forms for these classes of expressions."""

    def enter(maker: FormMaker) -> FormMaker:
        for kind in kinds:
            assert kind not in FORMS, f"{kind} has two makers"
            FORMS[kind] = maker
        return maker

    return enter

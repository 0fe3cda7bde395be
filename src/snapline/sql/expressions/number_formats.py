"""`format_number`: numbers with grouping and a fixed number of decimals, as Java's `DecimalFormat` writes them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_UP, Decimal, localcontext
from functools import lru_cache
from typing import Any

import pyarrow as pa

from snapline.sql.expressions.number_text import double_text
from snapline.sql.expressions.registry import Kernel, UnsupportedError, kernel
from snapline.sql.expressions.rowwise import rowwise
from snapline.sql.plans.trees import Expression

_PATTERN = re.compile(
    r"(?P<before>[^#0,.;%\u2030\u00a4'\-E]*)(?P<whole>[#,]*[0,]*)(?:\.(?P<fraction>0*#*))?(?P<after>[^#0,.;%\u2030\u00a4'\-E]*)"
)


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How many digits stand before and after the point, and how many of them form a group; 0 is no grouping."""

    least_whole: int
    least_fraction: int
    most_fraction: int
    group: int
    before: str = ""
    after: str = ""

    @property
    def is_usual(self) -> bool:
        """Whether it groups by thousands and has a fixed number of decimals and nothing else."""
        return (self.least_whole, self.group) == (1, 3) and self.least_fraction == self.most_fraction

    def text(self, number: Any) -> str:
        """The number, rounded half to even."""
        if isinstance(number, float) and not math.isfinite(number):
            if math.isnan(number):
                return "NaN"
            return f"{'-' if number < 0 else ''}{self.before}\u221e{self.after}"
        is_plain = self.is_usual and not self.before and not self.after
        if is_plain and isinstance(number, float) and 1e-3 <= abs(number) < 1e7:
            return f"{number:,.{self.most_fraction}f}"
        rounded = _rounded(number, self.most_fraction)
        is_negative = rounded.is_signed()
        whole, _, fraction = f"{rounded.copy_abs():f}".partition(".")
        whole = whole.lstrip("0").rjust(self.least_whole, "0")
        while len(fraction) > self.least_fraction and fraction.endswith("0"):
            fraction = fraction[:-1]
        if not whole and not fraction:
            whole = "0"
        if self.group:
            head = len(whole) % self.group
            groups = [whole[n : n + self.group] for n in range(head, len(whole), self.group)]
            whole = ",".join([whole[:head], *groups] if head else groups)
        digits = f"{whole}.{fraction}" if fraction else whole
        return f"{'-' if is_negative else ''}{self.before}{digits}{self.after}"


def _rounded(number: Any, places: int) -> Decimal:
    """Half to even. Of a double, the shortest digits count, and only for a half among them its exact value."""
    unit = Decimal(1).scaleb(-places)
    if not isinstance(number, float):
        with localcontext(prec=800):
            return Decimal(number).quantize(unit, ROUND_HALF_EVEN)
    digits, exact = Decimal(double_text(number)), Decimal(number)
    with localcontext(prec=800):
        down = digits.quantize(unit, ROUND_DOWN)
        if (digits - down).copy_abs() * 2 != unit or digits == exact:
            return digits.quantize(unit, ROUND_HALF_EVEN)
        return digits.quantize(unit, ROUND_UP if exact.copy_abs() > digits.copy_abs() else ROUND_DOWN)


@lru_cache(maxsize=256)
def number_format(pattern: str) -> NumberFormat:
    """Read a pattern such as `#,##0.00`. Raises `UnsupportedError` for percentages, exponents and quotation."""
    found = _PATTERN.fullmatch(pattern or "#,###,###,###,###,###,##0")
    if found is None or not (found["whole"] or found["fraction"]):
        raise UnsupportedError(f"the format {pattern!r} of format_number is not supported: use `#`, `0`, `,` and `.`")
    whole, fraction = found["whole"], found["fraction"] or ""
    group = len(whole) - whole.rindex(",") - 1 if "," in whole else 0
    has_no_zeros = found["fraction"] is not None and "0" not in whole + fraction
    least = 1 if has_no_zeros and whole else whole.count("0")
    return NumberFormat(least, fraction.count("0"), len(fraction), group, found["before"], found["after"])


@kernel("FormatNumber")
def _format_number(expression: Expression) -> Kernel:
    pattern = expression.children[1]
    if pattern.kind == "Literal" and isinstance(pattern.arguments["value"], str):
        number_format(pattern.arguments["value"])
    if pa.types.is_string(pattern.type):
        return rowwise(lambda number, pattern: number_format(pattern).text(number), pa.string())

    def text(number: Any, places: int) -> str | None:
        return NumberFormat(1, places, places, 3).text(number) if places >= 0 else None

    return rowwise(text, pa.string())

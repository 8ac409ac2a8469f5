"""Conditions of `--fail-if`: `[STATISTIC] QUANTITY[@level=…,load=…] OP LIMIT`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from operator import ge, gt, le, lt

from eigentime_report import units
from eigentime_report.comparison.shifts import STATISTICS

OPERATORS: dict[str, Callable[[float, float], bool]] = {">=": ge, "<=": le, ">": gt, "<": lt}
FILTERS = ("level", "load")
FORM = (
    "[STATISTIC] QUANTITY[@level=…,load=…] OP LIMIT, as in 'p99 sleep/nanosleep/1ms@load=io > +10%'"
)

_LIMIT = re.compile(r"(?P<sign>[+-]?)(?P<number>\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>\S*)")
# Levels that are commands have spaces and commas in their names.
_FILTER = re.compile(r",(?=\s*(?:level|load)\s*=)")


class ConditionError(ValueError):
    """A condition that cannot be understood, with a mark where it went wrong."""

    def __init__(self, text: str, column: int, reason: str) -> None:
        mark = " " * column + "^"
        super().__init__(f"condition '{text}': {reason}\n  {text}\n  {mark}\nhelp: {FORM}")
        self.column = column
        self.reason = reason


class Of(Enum):
    """What a limit is a limit of."""

    PERCENT = "the change in percent"
    CHANGE = "the change"
    VALUE = "the value"


@dataclass(frozen=True)
class Limit:
    """`+5%`, `+100ns` or `200us`: percent, or nanoseconds."""

    of: Of
    value: float


@dataclass(frozen=True)
class Condition:
    """What must not be: `p99 sleep/nanosleep/1ms@load=io > +10%`."""

    text: str
    # None: what is compared of its kind, the mean of calls, the median of sleeps.
    statistic: str | None
    parts: tuple[str, ...]
    level: str | None
    load: str | None
    operator: str
    limit: Limit

    def is_met(self, value: float) -> bool:
        """Whether `value`, of what the limit is of, is beyond the limit."""
        return OPERATORS[self.operator](value, self.limit.value)

    @property
    def is_upper(self) -> bool:
        """Whether it forbids what is above the limit."""
        return self.operator.startswith(">")

    @property
    def is_of_change(self) -> bool:
        """Whether it takes two folders."""
        return self.limit.of is not Of.VALUE


def parse(text: str) -> Condition:
    """Reads a condition; `ConditionError` says what is wrong with it, and where."""
    found = list(re.finditer(r"[<>]=?", text))
    if not found:
        reason = "an operator is missing: >, >=, < or <="
        raise ConditionError(text, len(text.rstrip()), reason)
    if swapped := re.search(r"(?<!level)(?<!load)=([<>])", text):
        reason = f"the operator is written {swapped[1]}="
        raise ConditionError(text, swapped.start(), reason)
    if len(found) > 1:
        reason = "one operator is enough, and names have none"
        raise ConditionError(text, found[1].start(), reason)
    (operator,) = found
    statistic, parts = _subject(text, text[: operator.start()].split("@", 1)[0])
    filters = _filters(text, operator.start())
    return Condition(
        text=text,
        statistic=statistic,
        parts=parts,
        level=filters.get("level"),
        load=filters.get("load"),
        operator=operator.group(),
        limit=_limit(text, operator),
    )


def _subject(text: str, subject: str) -> tuple[str | None, tuple[str, ...]]:
    """The statistic, if one is named, and the parts of the quantity's name."""
    words = list(re.finditer(r"\S+", subject))
    names = [it.group() for it in words]
    wrong = None
    if not words:
        wrong = len(subject.rstrip()), "a quantity is missing before this"
    elif len(words) > 1 and names[0] not in STATISTICS:
        reason = f"there is no statistic '{names[0]}': {', '.join(STATISTICS)}"
        wrong = words[0].start(), reason
    elif len(words) > 2:
        wrong = words[2].start(), "one quantity is enough, and its name has no space"
    elif len(words) == 1 and names[0] in STATISTICS:
        wrong = words[0].end(), f"the {names[0]} of which quantity is missing"
    elif gap := re.search(r"(?:^|/)(?=/|$)", names[-1]):
        reason = "there is nothing between the slashes of the quantity's name"
        wrong = words[-1].start() + gap.end(), reason
    if wrong:
        raise ConditionError(text, *wrong)
    return (names[0] if len(names) > 1 else None), tuple(names[-1].split("/"))


def _filters(text: str, end: int) -> dict[str, str]:
    """`level` and `load`, of what is between `@` and the operator."""
    start = text.find("@", 0, end) + 1
    filters: dict[str, str] = {}
    for part in _FILTER.split(text[start:end]) if start else ():
        name, equals, value = (piece.strip() for piece in part.partition("="))
        reason = ""
        if name not in FILTERS or not equals:
            reason = "behind @ there can be level=NAME and load=NAME"
        elif not value:
            reason = f"the name of the {name} is missing"
        elif name in filters:
            reason = f"{name} is named twice"
        if reason:
            raise ConditionError(text, start, reason)
        filters[name] = value
        start += len(part) + 1
    return filters


def _limit(text: str, operator: re.Match[str]) -> Limit:
    """What is behind the operator."""
    start = len(text) - len(text[operator.end() :].lstrip())
    said = text[start:].rstrip()
    found = _LIMIT.fullmatch(said)
    if not found:
        reason = "a limit is a change, +5% or +100ns, or a value with its unit, 200us"
        raise ConditionError(text, start, reason)
    sign, unit, number = found["sign"], found["unit"], float(found[1] + found[2])
    if unit != "%":
        try:
            number = units.nanoseconds(f"{number!r}{unit}")
        except ValueError:
            known = ", ".join(["%", *(it.typed for it in units.UNITS)])
            reason = f"there is no unit '{unit}'" if unit else "the unit is missing"
            column = start + found.start("unit")
            raise ConditionError(text, column, f"{reason}: {known}") from None
    if not sign and unit == "%":
        raise ConditionError(text, start, f"say +{said} or -{said}")
    if sign and (sign == "+") != (operator.group()[0] == ">"):
        reason = (
            "this holds where nothing has changed: "
            f"say '> +{said[1:]}' for what has grown, '< -{said[1:]}' for what has shrunk"
        )
        raise ConditionError(text, operator.start(), reason)
    if not sign:
        return Limit(Of.VALUE, number)
    return Limit(Of.PERCENT if unit == "%" else Of.CHANGE, number)

"""Conditions of `--fail-if`: `[STATISTIC] QUANTITY[@level=…,load=…] OP LIMIT`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from operator import ge, gt, le, lt

from eigentime_report import units
from eigentime_report.comparison.shifts import STATISTICS

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": ge,
    "<=": le,
    ">": gt,
    "<": lt,
}

FILTERS = ("level", "load")

FORM = "[STATISTIC] QUANTITY[@level=…,load=…] OP LIMIT, as in 'p99 sleep/nanosleep/1ms@load=io > +10%'"

_LIMIT = re.compile(r"(?P<sign>[+-]?)(?P<number>\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>\S*)")
_FILTER = re.compile(r",(?=\s*(?:level|load)\s*=)")


class ConditionError(ValueError):
    """A condition that cannot be understood, with a mark where it went wrong."""

    def __init__(self, text: str, column: int, reason: str) -> None:
        mark = " " * column + "^"
        super().__init__(
            f"condition '{text}': {reason}\n  {text}\n  {mark}\nhelp: {FORM}"
        )
        self.text = text
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
    statistic: str | None
    """None: the mean of calls, the median of all else."""
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
        column = len(text.rstrip())
        raise ConditionError(text, column, "an operator is missing: >, >=, < or <=")
    if swapped := re.search(r"(?<!level)(?<!load)=([<>])", text):
        raise ConditionError(
            text, swapped.start(), f"the operator is written {swapped[1]}="
        )
    operator = found[-1]
    if len(found) > 1:
        raise ConditionError(
            text, found[1].start(), "one operator is enough, and names have none"
        )
    statistic, parts = _subject(text, text[: operator.start()].split("@", 1)[0])
    filters = _filters(text, operator.start())
    limit = _limit(text, operator)
    return Condition(
        text=text,
        statistic=statistic,
        parts=parts,
        level=filters.get("level"),
        load=filters.get("load"),
        operator=operator.group(),
        limit=limit,
    )


def _subject(text: str, subject: str) -> tuple[str | None, tuple[str, ...]]:
    """The statistic, if one is named, and the parts of the quantity's name."""
    words = list(re.finditer(r"\S+", subject))
    if not words:
        raise ConditionError(
            text, len(subject.rstrip()), "a quantity is missing before this"
        )
    statistic = None
    if len(words) > 1 or words[0].group() in STATISTICS:
        statistic = words[0].group()
        if statistic not in STATISTICS:
            raise ConditionError(
                text,
                words[0].start(),
                f"there is no statistic '{statistic}': {', '.join(STATISTICS)}",
            )
    if len(words) > 2:
        raise ConditionError(
            text, words[2].start(), "one quantity is enough, and its name has no space"
        )
    if statistic and len(words) == 1:
        raise ConditionError(
            text, words[0].end(), f"the {statistic} of which quantity is missing"
        )
    name = words[-1]
    parts = name.group().split("/")
    if "" in parts:
        before = sum(len(part) + 1 for part in parts[: parts.index("")])
        raise ConditionError(
            text,
            name.start() + before,
            "there is nothing between the slashes of the quantity's name",
        )
    return statistic, tuple(parts)


def _filters(text: str, end: int) -> dict[str, str]:
    """`level` and `load`, of what is between `@` and the operator."""
    start = text.find("@", 0, end) + 1
    filters: dict[str, str] = {}
    if not start:
        return filters
    # Levels that are commands have spaces and commas in their names.
    for part in _FILTER.split(text[start:end]):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name not in FILTERS or not equals:
            raise ConditionError(
                text, start, "behind @ there can be level=NAME and load=NAME"
            )
        if not value:
            raise ConditionError(text, start, f"the name of the {name} is missing")
        if name in filters:
            raise ConditionError(text, start, f"{name} is named twice")
        filters[name] = value
        start += len(part) + 1
    return filters


def _limit(text: str, operator: re.Match[str]) -> Limit:
    """What is behind the operator."""
    start = len(text) - len(text[operator.end() :].lstrip())
    said = text[start:].rstrip()
    found = _LIMIT.fullmatch(said)
    if not found:
        raise ConditionError(
            text,
            start,
            "a limit is a change, +5% or +100ns, or a value with its unit, 200us",
        )
    sign, unit = found["sign"], found["unit"]
    number = float(sign + found["number"])
    if unit != "%":
        number = _nanoseconds(text, start + found.start("unit"), number, unit)
    if not sign:
        if unit == "%":
            raise ConditionError(text, start, f"say +{said} or -{said}")
        return Limit(Of.VALUE, number)
    if (sign == "+") != (operator.group()[0] == ">"):
        raise ConditionError(
            text,
            operator.start(),
            "this holds where nothing has changed: "
            f"say '> +{said[1:]}' for what has grown, '< -{said[1:]}' for what has shrunk",
        )
    return Limit(Of.PERCENT if unit == "%" else Of.CHANGE, number)


def _nanoseconds(text: str, column: int, number: float, unit: str) -> float:
    try:
        return units.nanoseconds(f"{number!r}{unit}")
    except ValueError:
        known = ", ".join(["%", *(it.typed for it in units.UNITS)])
        reason = f"there is no unit '{unit}'" if unit else "the unit is missing"
        raise ConditionError(text, column, f"{reason}: {known}") from None

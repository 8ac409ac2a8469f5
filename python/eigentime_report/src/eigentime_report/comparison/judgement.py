"""Conditions of `--fail-if`, `[STATISTIC] QUANTITY[@level=…,load=…] OP LIMIT`, and their
outcomes."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import ge, gt, le, lt

import numpy as np

from eigentime_report import units
from eigentime_report.analysis import COMPARED, asked_of
from eigentime_report.basics import Refused
from eigentime_report.comparison import changes
from eigentime_report.comparison.changes import Untold
from eigentime_report.conclusions.clauses import CHANGE, DURATION, PERCENT
from eigentime_report.results import Cell, Quantity, Results
from eigentime_report.results.cell import ENOUGH_BLOCKS, things
from eigentime_report.results.results import having, offered
from eigentime_report.statistics import coarse_text
from eigentime_report.verdicts import FEWEST_ROUNDS, Verdict, decide

OPERATORS: dict[str, Callable[[float, float], bool]] = {">=": ge, "<=": le, ">": gt, "<": lt}
FILTERS = ("level", "load")
FORM = (
    "[STATISTIC] QUANTITY[@level=…,load=…] OP LIMIT, as in 'p99 sleep/nanosleep/1ms@load=io > +10%'"
)

_LIMIT = re.compile(r"(?P<sign>[+-]?)(?P<number>\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>\S*)")
# Levels that are commands can have spaces and commas in their names.
_FILTER = re.compile(r",(?=\s*(?:level|load)\s*=)")


class ConditionError(Refused, ValueError):
    """An invalid condition, with a mark at the error."""

    def __init__(self, text: str, column: int, reason: str) -> None:
        mark = " " * column + "^"
        super().__init__(f"condition '{text}': {reason}\n  {text}\n  {mark}\nhelp: {FORM}")
        self.column = column
        self.reason = reason


class Of(Enum):
    """What a limit applies to."""

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
    """A condition for failure: `p99 sleep/nanosleep/1ms@load=io > +10%`."""

    text: str
    # None: the statistic compared by default, the mean for calls, the median for sleeps.
    statistic: str | None
    parts: tuple[str, ...]
    level: str | None
    load: str | None
    operator: str
    limit: Limit

    def is_met(self, value: float) -> bool:
        """Whether `value` is beyond the limit."""
        return OPERATORS[self.operator](value, self.limit.value)

    @property
    def is_upper(self) -> bool:
        """Whether it forbids values above the limit."""
        return self.operator.startswith(">")

    @property
    def is_of_change(self) -> bool:
        """Whether it needs two folders."""
        return self.limit.of is not Of.VALUE


def parse(text: str) -> Condition:
    """Parses a condition; `ConditionError` says what is wrong with it, and where."""
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
    level, load = (filters.get(it) for it in FILTERS)
    limit = _limit(text, operator)
    return Condition(text, statistic, parts, level, load, operator.group(), limit)


def _subject(text: str, subject: str) -> tuple[str | None, tuple[str, ...]]:
    """The statistic, if one is named, and the parts of the quantity's name."""
    words = list(re.finditer(r"\S+", subject))
    names = [it.group() for it in words]
    wrong = None
    if not words:
        wrong = len(subject.rstrip()), "a quantity is missing before this"
    elif len(words) > 1 and names[0] not in changes.STATISTICS:
        reason = f"there is no statistic '{names[0]}': {', '.join(changes.STATISTICS)}"
        wrong = words[0].start(), reason
    elif len(words) > 2:
        wrong = words[2].start(), "one quantity is enough, and its name has no space"
    elif len(words) == 1 and names[0] in changes.STATISTICS:
        wrong = words[0].end(), f"the {names[0]} of which quantity is missing"
    elif gap := re.search(r"(?:^|/)(?=/|$)", names[-1]):
        reason = "there is nothing between the slashes of the quantity's name"
        wrong = words[-1].start() + gap.end(), reason
    if wrong:
        raise ConditionError(text, *wrong)
    return (names[0] if len(names) > 1 else None), tuple(names[-1].split("/"))


def _filters(text: str, end: int) -> dict[str, str]:
    """`level` and `load`, from the text between `@` and the operator."""
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
    """The limit after the operator."""
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


UNDECIDED = "the limit is within the interval: more blocks would decide"

# What a limit applies to, in words, and how its numbers are written.
WRITTEN: Mapping[Of, tuple[str, Callable[[float], str]]] = {
    Of.PERCENT: ("the change", lambda it: units.percent(max(it / 100, -1.0))),
    Of.CHANGE: ("the change", lambda it: CHANGE.write(it, units.FIGURES)),
    Of.VALUE: ("it", lambda it: units.duration(it)),
}


class Outcome(Enum):
    """The outcome of a condition for one quantity, level and load: its verdict, if it has one."""

    REACHED = Verdict.REACHED.value
    MISSED = Verdict.MISSED.value
    UNDECIDED = Verdict.UNDECIDED.value
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Judgement:
    """An outcome, with its numbers or its reason in words."""

    condition: Condition
    outcome: Outcome
    text: str
    # None if the condition matches nothing that was measured.
    quantity: Quantity | None = None
    level: str | None = None
    load: str | None = None

    def __str__(self) -> str:
        place = ""
        if self.quantity:
            place = f"{self.quantity.name} at {self.level}, {self.load}: "
        return f"{self.outcome.value}: {self.condition.text.strip()}: {place}{self.text}"


def judge(
    conditions: Iterable[Condition],
    before: Results | None,
    after: Results,
    *,
    confidence: float = 0.95,
) -> list[Judgement]:
    """Judges each condition where possible: changes from `before` to `after`, or values of
    `after`."""
    return [
        judgement
        for condition in conditions
        for judgement in _judge(condition, before, after, confidence)
    ]


def _judge(
    condition: Condition, before: Results | None, after: Results, confidence: float
) -> Iterator[Judgement]:
    if condition.is_of_change and before is None:
        reason = (
            "a change is between two folders: name the one from before, and then this one; "
            "or give a value as the limit, such as 200us"
        )
        yield Judgement(condition, Outcome.NOT_JUDGED, reason)
        return
    compared_with = before if condition.is_of_change else None
    # What was only measured before is not skipped: its state afterwards is unknown.
    sets = [it for it in (after, compared_with) if it]
    quantities = {it.name: it for results in sets for it in results.quantities}
    places = dict.fromkeys(it for results in sets for it in _places(condition, results))
    found = False
    for quantity in having(condition.parts, quantities.values()):
        for level, load in places:
            cell = after.find(quantity, level, load)
            other = compared_with.find(quantity, level, load) if compared_with else None
            if other is None and (cell is None or compared_with):
                continue
            found = True
            try:
                outcome, text = verdict(condition, other, cell, confidence)
            except Untold as untold:
                outcome, text = Outcome.NOT_JUDGED, str(untold)
            yield Judgement(condition, outcome, text, quantity, level, load)
    if not found:
        reason = why_nothing(condition, [it for it in (compared_with, after) if it])
        yield Judgement(condition, Outcome.NOT_JUDGED, reason)


def _places(condition: Condition, results: Results) -> Iterator[tuple[str, str]]:
    for level in results.levels:
        for load in results.loads:
            if condition.level in (None, level) and condition.load in (None, load):
                yield level, load


def verdict(
    condition: Condition, before: Cell | None, after: Cell | None, confidence: float
) -> tuple[Outcome, str]:
    """The verdict on a condition at one place, with its numbers; `Untold` if it cannot be
    judged."""
    if after is None:
        raise Untold("it was measured before, and is missing afterwards")
    statistic = condition.statistic or COMPARED[after.quantity.kind]
    if before is None:
        _check_blocks(statistic, after)
        seen = changes.measure(statistic, after, confidence)
        text = _measured(statistic, seen, confidence)
        value, low, high, unseen = seen.value, seen.low, seen.high, seen.resolution
        _check_seen(condition, value, unseen, seen.resolution, text)
    else:
        found = changes.shift(statistic, before, after, confidence)
        what = f"{statistic} miss time" if asked_of(statistic, after) else statistic
        text = _changed(what, found, confidence)
        is_part = condition.limit.of is Of.PERCENT
        value, low, high, unseen = found.percents if is_part else found.lengths
        _check_seen(condition, value, unseen, found.resolution, text)
    if before is None and statistic in changes.EXTREMES:
        # They were observed, so there is no uncertainty.
        return Outcome.MISSED if condition.is_met(value) else Outcome.REACHED, text
    verdict = decide(low, high, condition.limit.value, at_least=not condition.is_upper)
    if verdict is Verdict.UNDECIDED:
        text = f"{text}; {UNDECIDED}"
    return Outcome(verdict.value), text


def _check_blocks(statistic: str, cell: Cell) -> None:
    """The maximum and the minimum are observations; everything else drifts from block to block."""
    blocks = len(np.unique(cell.blocks))
    if blocks < FEWEST_ROUNDS and statistic not in changes.EXTREMES:
        raise Untold(
            f"it was measured in {things(blocks, 'block')}, and it takes {FEWEST_ROUNDS} to tell a "
            f"value from drift: `eigentime bench --blocks {ENOUGH_BLOCKS}`"
        )


def _check_seen(
    condition: Condition, known: float, unseen: float, step_ns: float, text: str
) -> None:
    """The verdict must not depend on what the clock cannot show."""
    low, high = known - unseen, known + unseen
    if condition.is_met(low) == condition.is_met(high):
        return
    what, one = WRITTEN[condition.limit.of]
    raise Untold(
        f"{text}: {coarse_text(step_ns)}, so {what} may be anything from {one(low)} to {one(high)}, "
        "and the limit is among that"
    )


def _measured(statistic: str, it: changes.Measured, confidence: float) -> str:
    text = f"{statistic} {DURATION.one(it.value, it.low, it.high)}"
    if it.low == it.high:
        return text
    return f"{text} ({100 * confidence:g} % interval {DURATION.between(it.low, it.high)})"


def _changed(statistic: str, it: changes.Shift, confidence: float) -> str:
    unit = units.unit_for([it.before, it.after])
    before, after = (units.duration(end, unit) for end in (it.before, it.after))
    # Relative to the value before, or in nanoseconds if that is meaningless: if it is not above 0,
    # or so uncertain that the decrease might exceed it.
    is_part = it.before > 0 and (it.shares or it.low > -it.before)
    writer, whole = (PERCENT, it.before) if is_part else (CHANGE, 1.0)
    low, high = it.shares or (it.low / whole, it.high / whole)
    change = writer.one(it.difference / whole, low, high)
    return (
        f"{statistic} {before} before, {after} afterwards, {change} "
        f"({100 * confidence:g} % interval {writer.between(low, high)})"
    )


def why_nothing(condition: Condition, folders: Sequence[Results]) -> str:
    """Why a condition matches nothing, and what it could match."""
    for results in folders:
        where = f" in {results.folders[0]}" if len(folders) > 1 else ""
        if not having(condition.parts, results.quantities):
            near = offered(condition.parts, results.quantities)
            return f"nothing{where} is called that; {near}"
        for what, wanted, known in (
            ("level", condition.level, results.levels),
            ("load", condition.load, results.loads),
        ):
            if wanted is not None and wanted not in known:
                return f"there is no {what} '{wanted}'{where}: there are {', '.join(known)}"
    places = ", ".join(filter(None, (condition.level, condition.load)))
    return f"it was not measured {f'at {places}' if places else 'at the same level and load'}" + (
        " in both folders" if len(folders) > 1 else ""
    )

"""Sentences, their families, and their findings."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log1p, sqrt
from typing import Literal, TypeAlias

from eigentime_report.analysis import COMPARED, Compared, missed_share
from eigentime_report.basics import grouped
from eigentime_report.results import Cell, Quantity
from eigentime_report.statistics import DIFFERS, NOT_TESTED, UNDECIDED, Contrast
from eigentime_report.statistics.tests import holm


@dataclass(frozen=True)
class Sentence:
    """A conclusion, and the table with its numbers."""

    text: str
    table_key: str
    # More important sentences come first; those below `MAIN` may be folded away.
    weight: float
    # Its subject, for a heading.
    about: str = ""


# From here on, sentences are at the beginning of a page.
MAIN = 50.0


def below_main(importance: float) -> float:
    """The weight of a less important sentence, which its importance increases."""
    return MAIN * importance / (1 + importance) if importance > 0 else 0.0


def capital(text: str) -> str:
    """The text, capitalized."""
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class Measure:
    """The wording of an amount: for one quantity, and for several."""

    verb: tuple[str, str]
    # "takes 38 times as long", "takes 3 % longer", "takes 3 % less time".
    as_much: str
    more: str
    less: str
    # "takes 20 ns", "ends 80 µs late".
    amount: str


TIME = Measure(("takes", "take"), "as long", "longer", "less time", "{}")
LATENESS = Measure(("ends", "end"), "as late", "later", "less late", "{} late")
SCATTER = Measure(("scatters", "scatter"), "as much", "more", "less", "by {}")


@dataclass(frozen=True)
class Family:
    """Quantities of one kind, and their wording."""

    key: str
    # The names of its quantities.
    pattern: str
    kind: str
    one: str
    many: str
    measure: Measure
    # The order of its quantities: the larger value comes first.
    weight: int

    def counted(self, number: int) -> str:
        """`1 vDSO read`, `3 vDSO reads`."""
        return f"{number} {self.one if number == 1 else self.many}"

    def subject(self, its: Sequence[Quantity], of: int) -> str:
        """`vDSO reads` for all of them, `2 of 3 vDSO reads`, or the name of a single one."""
        if len(its) == 1:
            return its[0].title
        return self.many if len(its) == of else self.of_all(its, of)

    def of_all(self, its: Iterable[Quantity], of: int) -> str:
        """`all 3 vDSO reads`, `2 of 3 vDSO reads`, or the name of a single one."""
        own = list(its)
        if len(own) < of:
            return f"{len(own)} of {self.counted(of)}"
        if of == 1:
            return own[0].title
        return f"both {self.many}" if of == 2 else f"all {self.counted(of)}"


# A quantity belongs to the first one that contains it.
FAMILIES = (
    Family("vdso", "calls/vdso_", "calls", "vDSO read", "vDSO reads", TIME, 100),
    Family("sleeps", "calls/.*nanosleep$", "calls", "sleep of 100 ms", "sleeps of 100 ms", LATENESS, 80),
    Family("timers", "calls/timer", "calls", "timer call", "timer calls", TIME, 85),
    Family("system-calls", "calls/", "calls", "clock system call", "clock system calls", TIME, 90),
    Family("reads", "read/", "read", "single reading of a clock", "single readings of clocks", TIME, 70),
    Family("misses", "sleep/", "sleep", "sleep", "sleeps", LATENESS, 75),
    Family("events", "events/", "events", "timer", "timers", SCATTER, 65),
)  # fmt: skip


def family_of(quantity: Quantity) -> Family:
    """The family of a quantity."""
    return next(it for it in FAMILIES if re.match(it.pattern, quantity.name))


def by_family(quantities: Iterable[Quantity]) -> dict[Family, list[Quantity]]:
    """Quantities by family, in reading order."""
    found = grouped((family_of(it), it) for it in quantities)
    return dict(sorted(found.items(), key=lambda item: -item[0].weight))


Verdict: TypeAlias = Literal["more", "less", "slight", "same", "undecided", "untested"]

# In this order they are reported.
ORDER: tuple[Verdict, ...] = ("more", "less", "slight", "same", "undecided", "untested")

# Those that state a difference, with its direction.
DECIDED: tuple[Verdict, ...] = ("more", "less")

# From here on, a change is reported as a factor; for decreases from one half.
TIMES_FROM, TIMES_BELOW = 1.0, -0.5

WHY_SINGLE = "there is one {unit} only, and it takes more to see how much they differ"

# What must not be worse, where less of it is called better.
NO_WORSE: Mapping[str, Mapping[str, Callable[[Cell], float]]] = {
    "sleep": {"the p99": lambda cell: cell.quantile(0.99)},
    "events": {
        "the p99": lambda cell: cell.quantile(0.99),
        "the share of missed events": missed_share,
    },
}
NAMES = {"mean": "the mean", "median": "the median", "sd": "the SD"}


@dataclass(frozen=True)
class Finding:
    """A verdict with its effect: relative, or in nanoseconds if a ratio is meaningless."""

    quantity: Quantity
    pair: Contrast
    verdict: Verdict
    # Why it was not tested.
    because: str
    change: float | None
    # If only one end is None, it is not reported: it would be below zero.
    low: float | None
    high: float | None
    is_relative: bool
    # The values at both places as shown in tables, and those that have the other direction, which
    # makes it undecided.
    shown: tuple[float, float] | None = None
    against: Sequence[str] = ()
    # Its p among all that are reported together, if that alone makes it undecided.
    among: float | None = None
    # Its importance, from the least certain change: 0 if there may be none.
    importance: float = 0.0

    @property
    def unseen_ns(self) -> float | None:
        """The clock's resolution, if that alone makes it undecided."""
        return self.pair.resolution if self.pair.is_coarse else None

    @property
    def is_in_times(self) -> bool:
        """Whether it is so large that it is reported as a factor."""
        change = self.change or 0.0
        return self.is_relative and not TIMES_BELOW < change < TIMES_FROM

    @property
    def in_ns(self) -> "Finding":
        """The same in nanoseconds."""
        its = self.pair
        return replace(self, change=its.difference, low=its.low, high=its.high, is_relative=False)

    @property
    def as_shown(self) -> "Finding":
        """The same, by the change of the values as shown in tables."""
        if self.shown is None:
            return self
        was, now = self.shown
        is_relative = self.is_relative and was > 0
        change = (now - was) / (was if is_relative else 1.0)
        pair = replace(self.pair, difference=now - was)
        return replace(self, pair=pair, change=change, is_relative=is_relative)


def finding(compared: Compared, other: str) -> Finding:
    """The finding for `other` against the first one."""
    pair = compared.against_base(other)
    # No percentage of what a sleep was requested for: that is not its cost.
    is_relative = pair.percent is not None and not compared.quantity.asked_ns
    low, high = pair.low, pair.high
    if is_relative:
        ends = (pair.percent_low, pair.percent_high)
        low, high = (None if it is None else it / 100 for it in ends)
        # No ratio is below zero.
        low = None if low is not None and low <= -1 else low
    single = [group.name for group in compared.comparison.groups if group.n < 2]
    is_more = (pair.difference or 0) > 0
    verdicts: dict[str, Verdict] = {
        DIFFERS: "slight" if pair.is_within else "more" if is_more else "less",
        NOT_TESTED: "untested",
        UNDECIDED: "undecided",
    }
    # The rest is identical, or "same within 1 %".
    verdict = verdicts.get(pair.verdict, "same")
    return Finding(
        quantity=compared.quantity,
        pair=pair,
        verdict=verdict,
        because=WHY_SINGLE.format(unit=compared.unit) if single else pair.because,
        change=(pair.percent or 0.0) / 100 if is_relative else pair.difference,
        low=low,
        high=high,
        is_relative=is_relative,
        importance=_importance(compared, pair) if verdict in DECIDED else 0.0,
    )


def beside(finding: Finding, base: Cell, other: Cell) -> Finding:
    """The finding with the values of tables; undecided if these have the other direction."""
    asked, kind = base.quantity.asked_ns, base.quantity.kind
    was, now = (float(getattr(it, COMPARED[kind])) - asked for it in (base, other))
    found = replace(finding, shown=(was, now))
    if finding.verdict not in DECIDED:
        return found
    others = []
    if now < was if finding.verdict == "more" else now > was:
        others.append(NAMES[COMPARED[kind]])
    if finding.verdict == "less":
        worse = NO_WORSE.get(kind, {})
        others += [name for name, of in worse.items() if of(other) > of(base)]
    if not others:
        return found
    return replace(found, verdict="undecided", importance=0.0, against=others)


def _importance(compared: Compared, pair: Contrast) -> float:
    """The geometric mean of the certain change relative to the old value, and to the requested one.

    A sleep that ends twice as late matters little if it lasts a second, and much if it lasts as
    long as it is late. Calls and readings request nothing but themselves.
    """
    if pair.difference is None or pair.low is None or pair.high is None:
        return 0.0
    sure = min(abs(pair.low), abs(pair.high)) if pair.low * pair.high > 0 else 0.0
    groups = {group.name: group for group in compared.comparison.groups}
    was = groups[pair.j].mean or 0.0
    if was <= 0:
        return 0.0
    asked = compared.quantity.asked_ns or compared.quantity.interval_ns or was
    left = -sure if pair.difference < 0 else sure
    relative = abs(log1p(max(left / was, -0.999)))
    return sqrt(relative * sure / asked)


def beyond_chance(findings: Sequence[Finding], alpha: float) -> list[Finding]:
    """The findings of a sentence, adjusted so that chance makes an error in alpha of all.

    Of a hundred quantities that do not differ, five differ by their own tests. Therefore a
    difference must remain after Holm's adjustment for all quantities in the sentence; otherwise
    it is undecided.
    """
    tested = [it.pair.p for it in findings if it.pair.p is not None]
    adjusted = iter(holm(tested))
    judged = []
    for it in findings:
        p = None if it.pair.p is None else next(adjusted)
        if it.verdict in DECIDED and p is not None and p >= alpha:
            it = replace(it, verdict="undecided", importance=0.0, among=p)
        judged.append(it)
    return judged


def times_as_many(finding: Finding, same_within: float) -> int | None:
    """The factor by which more units would decide what is undecided; None if unknown.

    Intervals shrink with the root of the number of units, until they exclude 0 or are within
    what counts as the same, whichever comes first. They are those of the difference, which is
    tested.
    """
    difference, change = finding.pair.difference, finding.change
    if not finding.is_relative or not difference or not change:
        return None
    low, high = finding.pair.low, finding.pair.high
    if low is None or high is None:
        return None
    reach = (high - low) / 2
    same = same_within * difference / change
    wanted = max(abs(difference), same - abs(difference))
    return max(2, ceil((reach / wanted) ** 2)) if wanted > 0 else None

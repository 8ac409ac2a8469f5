"""Sentences, what belongs together in one, and how effects are written."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log1p, sqrt
from statistics import median
from typing import Literal, TypeAlias

from eigentime_report import units
from eigentime_report.analysis import COMPARED, Compared, missed_share
from eigentime_report.results import Cell, Quantity
from eigentime_report.statistics import DIFFERS, NOT_TESTED, UNDECIDED, Contrast
from eigentime_report.statistics.tests import holm


@dataclass(frozen=True)
class Sentence:
    """What a reader should conclude, and the table that has its numbers."""

    text: str
    table_key: str
    # What matters more comes first; those below `MAIN` may be folded away.
    weight: float
    # What it is about, for a heading.
    about: str = ""


# From here on, sentences belong to the opening of a page.
MAIN = 50.0


def below_main(importance: float) -> float:
    """The weight of a sentence that matters less, which importance brings nearer to the opening."""
    return MAIN * importance / (1 + importance) if importance > 0 else 0.0


def capital(text: str) -> str:
    """The text as it begins a sentence."""
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class Measure:
    """How one speaks of an amount: of one quantity, and of several."""

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
    """Quantities of one sort, and how one speaks of them."""

    key: str
    # The quantities' names that belong to it.
    pattern: str
    kind: str
    one: str
    many: str
    measure: Measure
    # In which order one reads about them: what is greater comes first.
    weight: int

    def counted(self, number: int) -> str:
        """`1 vDSO read`, `3 vDSO reads`."""
        return f"{number} {self.one if number == 1 else self.many}"

    def of_all(self, its: Iterable[Quantity], of: int) -> str:
        """`all 3 vDSO reads`, `2 of 3 vDSO reads`, or the name of a single one."""
        own = list(its)
        if len(own) < of:
            return f"{len(own)} of {self.counted(of)}"
        if of == 1:
            return own[0].title
        return f"both {self.many}" if of == 2 else f"all {self.counted(of)}"


# The first one that holds a quantity has it.
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
    """Quantities by their families, in the order in which one reads about them."""
    found: dict[Family, list[Quantity]] = {}
    for quantity in quantities:
        found.setdefault(family_of(quantity), []).append(quantity)
    return dict(sorted(found.items(), key=lambda item: -item[0].weight))


Verdict: TypeAlias = Literal["more", "less", "slight", "same", "undecided", "untested"]

# In this order they are told.
ORDER: tuple[Verdict, ...] = ("more", "less", "slight", "same", "undecided", "untested")

# Those that say that there is a difference, and to which side.
DECIDED: tuple[Verdict, ...] = ("more", "less")

# From here on, a change is told in times; to the other side from a half.
TIMES_FROM, TIMES_BELOW = 1.0, -0.5

WHY_SINGLE = "there is one {unit} only, and it takes more to see how much they differ"

# What has to be no worse, where less of what is compared is called better.
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
    """A verdict with its effect: a part of one, or nanoseconds where a part says nothing."""

    quantity: Quantity
    verdict: Verdict
    change: float | None
    # An end that is None with the other one known is not told: it would be below nothing.
    low: float | None
    high: float | None
    is_relative: bool
    p: float | None
    because: str
    # What the clock does not show, in nanoseconds, where this alone keeps it undecided.
    unseen_ns: float | None = None
    # The change in nanoseconds.
    difference: float | None = None
    # The ends of its interval.
    low_ns: float | None = None
    high_ns: float | None = None
    # What tables show of all values at both places, and what of it is to the other side, so that it is
    # undecided.
    shown: tuple[float, float] | None = None
    against: Sequence[str] = ()
    # Its p among all that one reads about together, where this alone keeps it undecided.
    among: float | None = None
    # How much it matters, by what it surely is at least: 0 where there may be no change.
    importance: float = 0.0

    @property
    def is_in_times(self) -> bool:
        """Is it so large that one tells how many times as much it is?"""
        change = self.change or 0.0
        return self.is_relative and not TIMES_BELOW < change < TIMES_FROM

    @property
    def in_ns(self) -> "Finding":
        """The same in nanoseconds."""
        return replace(
            self, change=self.difference, low=self.low_ns, high=self.high_ns, is_relative=False
        )

    @property
    def as_shown(self) -> "Finding":
        """The same, by how much what tables show has changed."""
        if self.shown is None:
            return self
        was, now = self.shown
        is_relative = self.is_relative and was > 0
        change = (now - was) / (was if is_relative else 1.0)
        return replace(self, change=change, difference=now - was, is_relative=is_relative)


def finding(compared: Compared, other: str) -> Finding:
    """Of `other` against the first one."""
    pair = compared.against_base(other)
    # Of what a sleep was asked for, no part is told: it is not what it costs.
    is_relative = pair.percent is not None and not compared.quantity.asked_ns
    low, high = pair.low, pair.high
    if is_relative:
        ends = (pair.percent_low, pair.percent_high)
        low, high = (None if it is None else it / 100 for it in ends)
        # No ratio is below nothing.
        low = None if low is not None and low <= -1 else low
    single = [group.name for group in compared.comparison.groups if group.n < 2]
    is_more = (pair.difference or 0) > 0
    verdicts: dict[str, Verdict] = {
        DIFFERS: "slight" if pair.is_within else "more" if is_more else "less",
        NOT_TESTED: "untested",
        UNDECIDED: "undecided",
    }
    # What is left is identical, or "same within 1 %".
    verdict = verdicts.get(pair.verdict, "same")
    return Finding(
        quantity=compared.quantity,
        verdict=verdict,
        change=(pair.percent or 0.0) / 100 if is_relative else pair.difference,
        low=low,
        high=high,
        is_relative=is_relative,
        p=pair.p,
        because=WHY_SINGLE.format(unit=compared.unit) if single else pair.because,
        difference=pair.difference,
        low_ns=pair.low,
        high_ns=pair.high,
        importance=_importance(compared, pair) if verdict in DECIDED else 0.0,
        unseen_ns=pair.resolution if pair.is_coarse else None,
    )


def beside(finding: Finding, base: Cell, other: Cell) -> Finding:
    """The finding with what tables show; it is undecided where that is to the other side."""
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
    """The geometric mean of what the change surely is of what was, and of what was asked for.

    A sleep that ends twice as late matters little if it lasts a second, and much if it lasts as
    long as it is late. Of calls and readings nothing was asked for but themselves.
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
    """The findings that one reads about together, so that chance makes an error in alpha of all.

    Of a hundred quantities that do not differ, five do by their own tests. So what differs
    has to do so after Holm's adjustment for all that are in the sentence; what then does not
    is undecided.
    """
    tested = [it.p for it in findings if it.p is not None]
    adjusted = iter(holm(tested))
    judged = []
    for it in findings:
        p = None if it.p is None else next(adjusted)
        if it.verdict in DECIDED and p is not None and p >= alpha:
            it = replace(it, verdict="undecided", importance=0.0, among=p)
        judged.append(it)
    return judged


def times_as_many(finding: Finding, same_within: float) -> int | None:
    """How many times as many units would decide what is undecided; None if it cannot be told.

    Intervals shrink with the root of the number of units: until they leave 0 out, or are
    within what counts as the same, whichever comes first. They are those of the difference, which
    is what is tested.
    """
    difference, change = finding.difference, finding.change
    if not finding.is_relative or not difference or not change:
        return None
    if finding.low_ns is None or finding.high_ns is None:
        return None
    reach = (finding.high_ns - finding.low_ns) / 2
    same = same_within * difference / change
    wanted = max(abs(difference), same - abs(difference))
    return max(2, ceil((reach / wanted) ** 2)) if wanted > 0 else None


# From so many on, the middle one is told beside the least and the greatest.
TYPICAL_FROM = 4
# Or where the greatest is so many times the least.
WIDE = 10

WITHOUT_INTERVAL = "no interval: there are too few values, or no scatter"


@dataclass(frozen=True)
class Writer:
    """How numbers of a sort are written, with so many figures, and more if that tells ends apart."""

    write: Callable[[float, int], str]
    figures: int
    most: int = 4

    def one(self, value: float, low: float | None, high: float | None) -> str:
        """The estimate, with as many figures as its interval has."""
        return self.write(value, self._figures(low, high))

    def between(self, low: float | None, high: float | None) -> str:
        """`19.7 to 19.9 ns`, the unit written once; or why there is no interval."""
        if low is None and high is not None:
            return f"at most {self.write(high, self.figures)}"
        if low is None or high is None:
            return WITHOUT_INTERVAL
        figures = self._figures(low, high)
        return _joined(self.write(low, figures), self.write(high, figures))

    def reach(self, values: Sequence[float]) -> str:
        """`20 to 24 ns`, or one number if one does not see that they differ."""
        return _joined(self.write(min(values), self.figures), self.write(max(values), self.figures))

    def _figures(self, low: float | None, high: float | None) -> int:
        if low is None or high is None or low == high:
            return self.figures
        tried = range(self.figures, self.most)
        return next((it for it in tried if self.write(low, it) != self.write(high, it)), self.most)


def _joined(first: str, last: str) -> str:
    """`20 to 24 ns` of `20 ns` and `24 ns`."""
    if first == last:
        return first
    amount, _, unit = first.rpartition(" ")
    return f"{amount if last.endswith(f' {unit}') else first} to {last}"


DURATION = Writer(lambda ns, figures: units.duration(ns, figures=figures), 3)
LENGTH = Writer(DURATION.write, 2)
CHANGE = Writer(lambda ns, figures: f"{'+' if ns > 0 else ''}{DURATION.write(ns, figures)}", 3)
PERCENT = Writer(lambda part, figures: units.percent(part, figures), 2)
SHARE = Writer(lambda part, figures: units.percent(part, figures, sign=False), 2)
TIMES = Writer(lambda part, figures: units.times(1 + part, figures + (0 <= part < 1)), 2)


def words(
    family: Family, findings: Sequence[Finding], of: int, same_within: float
) -> dict[str, str]:
    """What templates of sentences may ask for, of findings with one verdict among so many."""
    many = len(findings) > 1
    return {
        "all": family.of_all((it.quantity for it in findings), of),
        "verb": family.measure.verb[many],
        "differ": "differ" if many else "differs",
        "are": "are" if many else "is",
        "effects": effects(findings, is_named=len(findings) < of),
        "margin": units.margin(same_within),
        "why": findings[0].because,
    }


def effects(findings: Sequence[Finding], *, is_named: bool) -> str:
    """Of one; of several that differ the least, the middle and the greatest one, of others all.

    `is_named` says whether a single one needs its name.
    """
    known = [it for it in _on_one_scale(findings) if it.change is not None]
    if not known:
        return "no difference can be told"
    ordered = sorted(known, key=lambda it: (it.is_relative, it.change))
    writer = _writer(ordered)
    if len(ordered) == 1:
        return _effect(ordered[0], writer, is_named=is_named)
    if not all(it.verdict in DECIDED for it in ordered):
        return _reach(ordered, writer)
    ends = (ordered[0], ordered[-1])
    text = " to ".join(_effect(it, writer, is_named=True) for it in ends)
    if len(ordered) >= TYPICAL_FROM:
        text += f", in the middle {_effect(ordered[len(ordered) // 2], writer, is_named=True)}"
    return text


def _effect(finding: Finding, writer: Writer, *, is_named: bool) -> str:
    """`+3.0 % (+2.6 to +3.4 %; vdso_gettimeofday)`."""
    change, low, high = finding.change or 0.0, finding.low, finding.high
    name = f"; {finding.quantity.title}" if is_named else ""
    return f"{writer.one(change, low, high)} ({writer.between(low, high)}{name})"


def amount(findings: Sequence[Finding], measure: Measure, *, is_short: bool = True) -> str:
    """Of some that differ to one side: `38 to 53 times as long`, `2.4 % (0.5 ns) longer`.

    Where nothing but that is told, the middle one is, too, and the greatest if it is far off.
    """
    findings = _on_one_scale(findings)
    changes = [it.change for it in findings if it.change is not None]
    lengths = [abs(it.difference) for it in findings if it.difference is not None]
    if any(it.is_in_times for it in findings):
        more = "; ".join(_far_apart(findings)) if is_short else ""
        return f"{TIMES.reach(changes)} {measure.as_much}{f' ({more})' if more else ''}"
    word = measure.more if changes[0] > 0 else measure.less
    if not all(it.is_relative for it in findings):
        return f"{LENGTH.reach(lengths)} {word}"
    return f"{SHARE.reach([abs(it) for it in changes])} ({LENGTH.reach(lengths)}) {word}"


def _far_apart(findings: Sequence[Finding]) -> Iterator[str]:
    """`in the middle 37 times`, `sleeper 1 ms from 138 ns to 2.96 ms`."""
    changes = [it.change for it in findings if it.change is not None]
    if len(changes) >= TYPICAL_FROM:
        yield f"in the middle {TIMES.reach([median(changes)])}"
    most = max(findings, key=lambda it: it.change or 0.0)
    if most.shown and 1 + max(changes) >= WIDE * (1 + min(changes)):
        was, now = (DURATION.reach([it]) for it in most.shown)
        yield f"{most.quantity.title} from {was} to {now}"


def detail(findings: Sequence[Finding], *, is_named: bool) -> str:
    """What stands behind an amount: the interval of one, the effects of several by their names."""
    if len(findings) > 1:
        return f": {effects(findings, is_named=True)}"
    (one,) = _on_one_scale(findings)
    name = f"; {one.quantity.title}" if is_named else ""
    within = _writer([one]).between(one.low, one.high)
    return f" ({within}{name})"


def intervals(findings: Sequence[Finding]) -> str:
    """`−0.31 to +0.09 %`: from the least to the greatest end of all intervals."""
    findings = _on_one_scale(findings)
    lows = [it.low for it in findings]
    highs = [it.high for it in findings if it.high is not None]
    if not highs:
        return WITHOUT_INTERVAL
    known = [it for it in lows if it is not None]
    low = min(known) if len(known) == len(lows) else None
    return _writer(findings).between(low, max(highs))


def _reach(ordered: Sequence[Finding], writer: Writer) -> str:
    """`−0.12 to +0.02 % (intervals from −0.31 to +0.09 %)`."""
    within = intervals(ordered)
    if within != WITHOUT_INTERVAL:
        within = f"intervals {within}"
    return f"{writer.between(ordered[0].change, ordered[-1].change)} ({within})"


def _on_one_scale(findings: Sequence[Finding]) -> Sequence[Finding]:
    """All as parts, or all in nanoseconds: what is open is, where no part of one can be told.

    What is tested is the difference. Of a large one the ratio has an interval of its own, by which
    it might be no longer open.
    """
    if all(it.is_relative and not _is_open_in_times(it) for it in findings):
        return findings
    return [it.in_ns for it in findings]


def _is_open_in_times(finding: Finding) -> bool:
    low = -1.0 if finding.low is None and finding.high is not None else finding.low
    return finding.verdict == "undecided" and (finding.is_in_times or low is not None and low <= -1)


def _writer(findings: Sequence[Finding]) -> Writer:
    """One way to write all of them: in nanoseconds, in percent, or in times if one is large."""
    if not all(it.is_relative for it in findings):
        return CHANGE
    return TIMES if any(it.is_in_times for it in findings) else PERCENT

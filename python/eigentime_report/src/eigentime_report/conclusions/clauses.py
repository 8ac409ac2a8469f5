"""The wording of effects, and the clauses of a sentence, one for each verdict."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from eigentime_report import units
from eigentime_report.basics import listed
from eigentime_report.conclusions.wording import (
    DECIDED,
    ORDER,
    Family,
    Finding,
    Measure,
    Verdict,
    times_as_many,
)
from eigentime_report.statistics import coarse_text

# From this number on, the median is added to the minimum and the maximum.
TYPICAL_FROM = 4
# Or if the maximum is this many times the minimum.
WIDE = 10

WITHOUT_INTERVAL = "no interval: there are too few values, or no scatter"


@dataclass(frozen=True)
class Writer:
    """How numbers of a kind are written, with this many digits, or more if the ends are
    otherwise equal."""

    write: Callable[[float, int], str]
    figures: int
    most: int = 4

    def one(self, value: float, low: float | None, high: float | None) -> str:
        """The estimate, with as many digits as its interval."""
        return self.write(value, self._figures(low, high))

    def between(self, low: float | None, high: float | None) -> str:
        """`19.7 to 19.9 ns`, with the unit once; or why there is no interval."""
        if low is None and high is not None:
            return f"at most {self.write(high, self.figures)}"
        if low is None or high is None:
            return WITHOUT_INTERVAL
        figures = self._figures(low, high)
        return _joined(self.write(low, figures), self.write(high, figures))

    def reach(self, values: Sequence[float]) -> str:
        """`20 to 24 ns`, or one number if they look the same."""
        return _joined(self.write(min(values), self.figures), self.write(max(values), self.figures))

    def _figures(self, low: float | None, high: float | None) -> int:
        if low is None or high is None or low == high:
            return self.figures
        tried = range(self.figures, self.most)
        return next((it for it in tried if self.write(low, it) != self.write(high, it)), self.most)


def _joined(first: str, last: str) -> str:
    """`20 to 24 ns` from `20 ns` and `24 ns`."""
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


# A clause for each verdict; only the first one names what it is compared with. {subject} is `all 3
# vDSO reads`, `2 of 3 vDSO reads`, `2 others` or a name.
CLAUSES: Mapping[Verdict, str] = {
    "more": "{subject} {verb} {amount}{than}{detail}",
    "less": "{subject} {verb} {amount}{than}{detail}",
    "slight": "{subject} {differ}{from_base} by less than {margin}: {effects}",
    "same": "nothing measurable changes for {subject}{against}: {effects}, within {margin}",
    "undecided": "{subject} {are} undecided{against}: {effects}; {remedy}",
    "untested": "{subject} {are} not tested{against}: {why}",
}

# What would decide an undecided one.
BLOCKS = "about {times} times as many blocks would decide {it}"
MANY_BLOCKS = (
    "a change of {margin} is too little to see in this scatter: more blocks would decide {it}"
)
SOME_BLOCKS = "more blocks would decide {it}"
# What no number of blocks would decide.
COARSE = "{steps}, and what is smaller does not show"
# What would be a difference by its own test alone.
AMONG = "what differs by itself may do so by chance among {of} (p = {p} by Holm)"
AGAINST = "{what} of {name} went the other way"
# More than this many times the blocks is not useful advice.
PRACTICAL = 20


def clauses(
    family: Family,
    alike: Sequence[Sequence[Finding]],
    same_within: float,
    there: str,
    noun: str = "",
) -> str:
    """The clauses for each verdict, at one place, or at several with the same quantities.

    `there` is where the base was measured (`on the host`), `noun` what it is.
    """
    told: list[str] = []
    of = len(alike[0])
    margin = units.margin(same_within)
    for verdict in ORDER:
        here = [it.quantity for it in alike[0] if it.verdict == verdict]
        if not here:
            continue
        its = [it for findings in alike for it in findings if it.verdict == verdict]
        many, is_decided = len(here) > 1, verdict in DECIDED
        subject = family.of_all(here, of) if not told else f"{len(here)} others"
        base = "as" if any(it.is_in_times for it in its) else "than"
        words = {
            "subject": subject if many else here[0].title,
            "verb": family.measure.verb[many],
            "differ": "differ" if many else "differs",
            "are": "are" if many else "is",
            "amount": amount(its, family.measure, is_short=False) if is_decided else "",
            "than": "" if told else f" {base} {there}",
            "from_base": "" if told or not noun else f" from {noun}",
            "against": "" if told or not noun else f" against {noun}",
            "detail": detail(its) if is_decided else "",
            "effects": effects(its),
            "margin": margin,
            "remedy": _remedy(its, same_within, of),
            "why": its[0].because,
        }
        told.append(CLAUSES[verdict].format(**words))
    return "; ".join(told)


def _remedy(its: Sequence[Finding], same_within: float, of: int) -> str:
    """Why they are undecided, and what would decide them."""
    told = [
        AGAINST.format(what=listed(it.against), name=it.quantity.title) for it in its if it.against
    ]
    if by_itself := [it.among for it in its if it.among is not None]:
        told.append(AMONG.format(of=of, p=units.p_value(min(by_itself))))
    others = [it for it in its if not it.against]
    unseen = [it.unseen_ns for it in others if it.unseen_ns is not None]
    if unseen:
        told.append(COARSE.format(steps=coarse_text(max(unseen))))
    elif others:
        needed = [times_as_many(it, same_within) for it in others]
        known = [times for times in needed if times is not None]
        template = SOME_BLOCKS
        if len(known) == len(needed):
            template = BLOCKS if max(known) <= PRACTICAL else MANY_BLOCKS
        it = "them" if len({it.quantity for it in others}) > 1 else "it"
        margin = units.margin(same_within)
        told.append(template.format(times=max(known, default=0), it=it, margin=margin))
    return "; ".join(told)


def effects(findings: Sequence[Finding]) -> str:
    """The effects: all of a few; of many the lowest, the median and the highest."""
    known = [it for it in _on_one_scale(findings) if it.change is not None]
    if not known:
        return "no difference can be told"
    ordered = sorted(known, key=lambda it: (it.is_relative, it.change))
    writer = _writer(ordered)
    if len(ordered) == 1:
        return _effect(ordered[0], writer)
    if not all(it.verdict in DECIDED for it in ordered):
        return _reach(ordered, writer)
    # At several places it may be one quantity, which was already named.
    is_named = len({it.quantity for it in ordered}) > 1
    ends = (ordered[0], ordered[-1])
    text = " to ".join(_effect(it, writer, is_named=is_named) for it in ends)
    if len(ordered) >= TYPICAL_FROM and is_named:
        text += f", in the middle {_effect(ordered[len(ordered) // 2], writer, is_named=True)}"
    return text


def _effect(finding: Finding, writer: Writer, *, is_named: bool = False) -> str:
    """`+3.0 % (+2.6 to +3.4 %; vdso_gettimeofday)`."""
    change, low, high = finding.change or 0.0, finding.low, finding.high
    name = f"; {finding.quantity.title}" if is_named else ""
    return f"{writer.one(change, low, high)} ({writer.between(low, high)}{name})"


def amount(findings: Sequence[Finding], measure: Measure, *, is_short: bool = True) -> str:
    """The amount of several in one direction: `38 to 53 times as long`, `2.4 % (0.5 ns) longer`.

    If nothing else is reported, the median is added, and the maximum if it is far off.
    """
    findings = _on_one_scale(findings)
    changes = [it.change for it in findings if it.change is not None]
    lengths = [abs(it.pair.difference) for it in findings if it.pair.difference is not None]
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


def detail(findings: Sequence[Finding]) -> str:
    """The details of an amount: the interval of one, the named effects of several."""
    if len(findings) > 1:
        return f": {effects(findings)}"
    (one,) = _on_one_scale(findings)
    return f" ({_writer([one]).between(one.low, one.high)})"


def intervals(findings: Sequence[Finding]) -> str:
    """`−0.31 to +0.09 %`: from the lowest to the highest end of all intervals."""
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
    """All as percentages, or all in nanoseconds; undecided ones in nanoseconds if one has no
    percentage.

    The difference is tested. The ratio of a large one has its own interval, according to which
    it might not be undecided.
    """
    if all(it.is_relative and not _is_open_in_times(it) for it in findings):
        return findings
    return [it.in_ns for it in findings]


def _is_open_in_times(finding: Finding) -> bool:
    low = -1.0 if finding.low is None and finding.high is not None else finding.low
    return finding.verdict == "undecided" and (finding.is_in_times or low is not None and low <= -1)


def _writer(findings: Sequence[Finding]) -> Writer:
    """One format for all of them: nanoseconds, percent, or factors if one is large."""
    if not all(it.is_relative for it in findings):
        return CHANGE
    return TIMES if any(it.is_in_times for it in findings) else PERCENT

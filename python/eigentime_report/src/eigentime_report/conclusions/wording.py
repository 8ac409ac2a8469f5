"""How effects are written in sentences."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from eigentime_report import units
from eigentime_report.conclusions.families import Family, Measure
from eigentime_report.conclusions.findings import DECIDED, Finding

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

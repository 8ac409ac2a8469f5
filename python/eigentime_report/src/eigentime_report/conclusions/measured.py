"""Costs, failing clocks and timers, and reasons to doubt the numbers."""

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from scipy import stats

from eigentime_report import units
from eigentime_report.analysis import COMPARED, MISSED, Analysis, describe, keeps_time, missed_share
from eigentime_report.basics import grouped, listed
from eigentime_report.conclusions import clauses, places, wording
from eigentime_report.conclusions.clauses import DURATION
from eigentime_report.conclusions.wording import MAIN, Family, Sentence, capital
from eigentime_report.results import Cell, Quantity, Results

# Those that readers look for, reported beside the extremes of many.
SLEEPS = ("nanosleep", "timerfd", "sleeper")
# Latencies that are exceeded this rarely are reported beside the median.
ONE_IN = {0.9: "ten", 0.99: "a hundred", 0.999: "a thousand"}
EVENTS = "events"


def costs(analysis: Analysis) -> Iterator[Sentence]:
    """A sentence for each kind: from the lowest to the highest of its quantities."""
    results = analysis.results
    level, load = results.levels[0], results.loads[0]
    where = places.level(level, results).there
    if len(results.loads) > 1:
        where += f", {places.load(load).there}"
    for kind in analysis.kinds:
        cells = _cells(analysis, kind, level, load)
        told = _timers(cells) if kind == EVENTS else _families(analysis, cells)
        if told:
            key = EVENTS if kind == EVENTS else f"descriptives-{kind}"
            about = next(iter(wording.by_family(cell.quantity for cell in cells))).key
            yield Sentence(f"{capital(where)}, {told}.", key, MAIN, about)


def missed(analysis: Analysis) -> Iterator[Sentence]:
    """A sentence for each level with timers that do not keep their interval, by load."""
    results = analysis.results
    for level in results.levels:
        told: list[str] = []
        shares: list[float] = []
        for load in results.loads:
            cells = _cells(analysis, EVENTS, level, load)
            late = {it: missed_share(it) for it in cells if not keeps_time(it)}
            if late:
                worst = max(late, key=missed_share).quantity.title
                reach = f"{clauses.SHARE.reach([*late.values()])}, {worst} most"
                where = places.load(load).there
                told.append(f"{len(late)} of {len(cells)} ({reach}) {where}")
                shares += late.values()
        if told:
            yield Sentence(
                f"{capital(places.level(level, results).there)}, some timers do not keep their interval: "
                f"they miss more than {units.margin(MISSED)} of their events, and how even the others are "
                f"is not compared. These are {'; '.join(told)}.",
                EVENTS,
                wording.below_main(max(shares)),
                EVENTS,
            )


def _cells(analysis: Analysis, kind: str, level: str, load: str) -> list[Cell]:
    its = (analysis.results.cell(it, level, load) for it in analysis.quantities(kind))
    return [cell for cell in its if cell]


def _families(analysis: Analysis, cells: Sequence[Cell]) -> str:
    """`a vDSO read takes 20 to 24 ns, a timer call 150 to 280 ns`."""
    by_name = {cell.quantity: cell for cell in cells}
    told: list[str] = []
    verb = ""
    for family, quantities in wording.by_family(by_name).items():
        # For single sleeps, it is reported exactly how late they end.
        if family.key == "sleeps" and "sleep" in analysis.kinds:
            continue
        own = [by_name[it] for it in quantities]
        subject = f"a {family.one}" if len(own) > 1 else own[0].quantity.title
        again, verb = verb, family.measure.verb[0]
        words = (subject, "" if verb == again else verb, _family(family, own))
        told.append(" ".join(filter(None, words)))
    return ", ".join(told)


def _family(family: Family, cells: Sequence[Cell]) -> str:
    """`20 to 24 ns`; of sleeps, `40 µs (timerfd) to 90 µs (usleep) late in the median, …`."""
    numbers = {cell.quantity: describe(cell) for cell in cells}
    amounts = {
        # For sleeps, only the part beyond the requested one.
        it.title: float(getattr(its, COMPARED[it.kind])) - it.asked_ns
        for it, its in numbers.items()
    }
    if family.kind != "sleep":
        return family.measure.amount.format(DURATION.reach([*amounts.values()]))
    wanted = [it.title for it in numbers if it.subject in SLEEPS]
    told = f"{_named(amounts, family.measure.amount, wanted)} (median)"
    known = [set(its.quantiles) & set(ONE_IN) for its in numbers.values()]
    if tails := set.intersection(*known):
        furthest = max(tails)
        late = [its.quantiles[furthest] for its in numbers.values()]
        told += f", and one in {ONE_IN[furthest]} later than {DURATION.reach(late)}"
    return told


def _named(known: Mapping[str, float], amount: str, wanted: Sequence[str] = ()) -> str:
    """`0.1 µs (sleeper) to 90 µs (usleep) late, in the middle 84 µs`.

    Instead of the median, the `wanted` ones, unless they are too many.
    """
    (first, low), *_, (last, high) = sorted((*known.items(), *known.items()), key=lambda it: it[1])
    if len(known) == 1:
        return amount.format(DURATION.reach([low]))
    ends = f"{DURATION.reach([low])} ({first}) to {DURATION.reach([high])} ({last})"
    told = amount.format(ends)
    if len(known) < clauses.TYPICAL_FROM:
        return told
    others = [name for name in wanted if name not in (first, last)]
    if 0 < len(others) <= len(SLEEPS):
        named = (f"{name} {DURATION.reach([known[name]])}" for name in others)
        return ", ".join([told, *named])
    return f"{told}, in the middle {DURATION.reach([median(known.values())])}"


def _timers(cells: Sequence[Cell]) -> str:
    """`events of 12 of 16 timers scatter by 0.3 to 12 µs (SD); the other 4 miss 50 to 86 %`."""
    even = [cell for cell in cells if keeps_time(cell)]
    late = [missed_share(cell) for cell in cells if not keeps_time(cell)]
    if not cells:
        return ""
    name = cells[0].quantity.title if len(cells) == 1 else f"{len(cells)} timers"
    share = clauses.SHARE.reach(late) if late else ""
    if not even:
        return f"no event of {name} can be relied on: {share} of them are missed"
    deviations = {it.quantity.title: describe(it).sd_uncorrected for it in even}
    of = f"{len(even)} of {name}" if late else name
    told = f"events of {of} scatter {_named(deviations, wording.SCATTER.amount)} (SD)"
    if len(late) == 1:
        return f"{told}; the other one misses {share} of its events"
    return f"{told}; the other {len(late)} miss {share} of theirs" if late else told


WARPS = "warps"
# With fewer readings, it is not stated that a clock never went backwards; `eigentime bench` has the
# same limit.
ENOUGH = 1000
MILLION = 1e6
# More clocks than this are only counted.
NAMED = 3

SERVED = "served"
KERNEL = "system_call"
# Whatever calls the vDSO, in any family.
CLOCK_READS = Family("", "", "", "clock read", "clock reads", wording.TIME, 0)

Row: TypeAlias = Mapping[str, Any]


def backwards(analysis: Analysis) -> tuple[list[Sentence], list[Sentence], list[Sentence]]:
    """The clocks that went backwards, the worst first; those that never did; the others."""
    results, confidence = analysis.results, analysis.confidence
    clocks = results.warps.group_by("level", "clock", maintain_order=True).agg(
        pl.col("readings", "backwards").sum(), pl.col("worst_ns", "smallest_visible_ns").max()
    )
    rows = clocks.rows(named=True)
    back = sorted((it for it in rows if it["backwards"]), key=lambda it: -it["worst_ns"])
    steady = [it for it in rows if not it["backwards"] and it["readings"] >= ENOUGH]
    few = [it for it in rows if not it["backwards"] and it["readings"] < ENOUGH]
    told = [_went_back(row, results, confidence) for row in back]
    never, unclear = [], []
    if steady:
        readings = sum(row["readings"] for row in steady)
        visible = sorted(row["smallest_visible_ns"] for row in steady)
        most = stats.binomtest(0, readings).proportion_ci(confidence, method="exact").high
        finest, coarsest = units.duration(visible[0]), units.duration(visible[-1])
        seen = f"from {finest} on"
        if finest != coarsest:
            seen += f" by the finest clock, from {coarsest} on by the coarsest one"
        never.append(
            f"{'Elsewhere, no' if back else 'No'} clock went backwards in {units.count(readings)} "
            f"readings (at {100 * confidence:g} % confidence fewer than about 1 in {_many(1 / most)}): "
            f"{_where(steady, results)}. A step back would have been seen {seen}."
        )
    if few:
        names = listed([f"{row['clock']} ({row['level']})" for row in few])
        unclear.append(
            f"Too few readings were compared to say whether these clocks go backwards: {names}; "
            "a longer look (`--warp`) would decide it."
        )
    back_, never_, unclear_ = (
        [Sentence(text, WARPS, MAIN, WARPS) for text in texts] for texts in (told, never, unclear)
    )
    return back_, never_, unclear_


def _went_back(row: Row, results: Results, confidence: float) -> str:
    number, of = row["backwards"], row["readings"]
    limits = stats.binomtest(number, of).proportion_ci(confidence, method="exact")
    often, seldom = (units.count(round(1 / it)) for it in (limits.high, limits.low))
    return (
        f"{capital(places.level(row['level'], results).there)}, {row['clock']} went backwards: "
        f"{units.count(number)} of {units.count(of)} readings were behind one before them "
        f"(1 in {units.count(round(of / number))}; at {100 * confidence:g} % confidence 1 in {often} "
        f"to 1 in {seldom}), by {units.duration(row['worst_ns'])} at most."
    )


def _where(rows: Sequence[Row], results: Results) -> str:
    """`tsc and CLOCK_MONOTONIC on the host, CLOCK_BOOTTIME in a container`; for many, the
    number."""
    levels = grouped((row["clock"], row["level"]) for row in rows)
    clocks = grouped(
        (tuple(it for it in results.levels if it in at), clock) for clock, at in levels.items()
    )
    return ", ".join(
        f"{listed(names) if len(names) <= NAMED else f'all {len(names)} clocks'} "
        f"{places.at(at, results)}"
        for at, names in clocks.items()
    )


def _many(number: float) -> str:
    """`7.9 million`; below a million, all digits."""
    if number < MILLION:
        return units.count(int(number))
    return f"{units.number(number / MILLION, 2)} million"


def served(analysis: Analysis) -> Iterator[Sentence]:
    """One sentence: where the vDSO serves all clock reads, and where the kernel does."""
    results = analysis.results
    asked = [
        it
        for it in results.quantities
        if it.subject.startswith("vdso_") or (it.kind, it.subject) == ("read", "clock_gettime")
    ]
    # Those that the kernel serves at a level, with their means under the first load.
    by_kernel: dict[str, dict[Quantity, float]] = {}
    for level in results.levels:
        for quantity in asked:
            if there := [cell for cell in results.cells(quantity) if cell.level == level]:
                own = by_kernel.setdefault(level, {})
                if KERNEL in there[-1].served:
                    own[quantity] = there[0].mean
    if not by_kernel:
        return
    reads = CLOCK_READS.of_all(asked, len(asked))
    told = []
    if well := [level for level, its in by_kernel.items() if not its]:
        where = places.at(well, results)
        told.append(f"The vDSO serves {reads} {where}: no read goes into the kernel")
    for level, its in by_kernel.items():
        if its:
            which = listed([quantity.title for quantity in its])
            if len(its) == len(asked) > 1:
                which = f"any of the {len(asked)} clock reads"
            told.append(
                f"{places.level(level, results).there}, {'it' if told else 'the vDSO'} does not "
                f"serve {which}: each is a system call, and takes {DURATION.reach([*its.values()])} "
                "in the mean"
            )
    yield Sentence(f"{capital('; '.join(told))}.", SERVED, MAIN, "vdso")


ABOUT = "trust"
# The first sentence goes to the beginning; the others are notes.
ABOUT_TRUST = "assurance"
IDLE = "idle"
# In this share of its observations a load must have its effect, for any conclusion.
LOADING = 0.9

# How `eigentime bench` words that something else ran, and what ran a virtual machine.
BUSY = re.compile(r"others kept the processors up to (\d+) % busy")
BY_TRANSLATOR = "is run by QEMU's translator"
# The reference to a level's notes for the reason.
WHY_TRANSLATED = "kvm"


def failed_loads(results: Results) -> set[tuple[str, str]]:
    """Levels and loads at which the load had no effect."""
    looks = _looks(results)
    return {(level, load) for level, load, share, _ in looks if share < LOADING}


def assurance(analysis: Analysis) -> Iterator[Sentence]:
    """The reliability of the numbers, in one sentence; `trust` has the details."""
    results = analysis.results
    by_count: dict[str, list[str]] = {}
    for load in results.loads:
        cells = [it for each in results.quantities for it in results.cells(each, load)]
        blocks = [len(np.unique(cell.blocks)) for cell in cells]
        if blocks:
            least, most = min(blocks), max(blocks)
            number = f"{least} to {most}" if least < most else str(least)
            name = f"{number} block{'' if most == 1 else 's'}"
            by_count.setdefault(name, []).append(places.load(load).there)
    if not by_count:
        return
    text = "These numbers are from " + ", ".join(
        f"{number} {listed(where)}" if len(by_count) > 1 else number
        for number, where in by_count.items()
    )
    remarks = " ".join(remark for run in results.runs for remark in run.remarks)
    if busy := [int(percent) for percent in BUSY.findall(remarks)]:
        text += f"; others kept the processors up to {max(busy)} % busy meanwhile"
    if failed := sorted(failed_loads(results)):
        names = listed([f"{load} ({level})" for level, load in failed])
        text += f"; nothing is concluded from loads that did not load: {names}"
    if unfinished := [run for run in results.runs if not run.is_complete]:
        text += f"; {len(unfinished)} of {len(results.runs)} runs did not end in order"
    yield Sentence(f"{text}.", "levels", MAIN, ABOUT_TRUST)


def trust(analysis: Analysis) -> list[Sentence]:
    """What ran virtual machines, which loads had no effect, and the runs' own notes."""
    results = analysis.results
    told = [
        *(("levels", text) for text in _machines(results)),
        *(("loads", text) for text in _loading(results)),
        *_units(analysis),
        *(
            ("levels", f"{capital(note.rstrip('.:; '))}.")
            for note in results.notes
            # The translator has already been mentioned.
            if BY_TRANSLATOR not in note
        ),
    ]
    # The most serious come first.
    return [Sentence(text, key, -float(place), ABOUT) for place, (key, text) in enumerate(told)]


def _machines(results: Results) -> Iterator[str]:
    for level in results.levels:
        if places.is_translated(level, results):
            reasons = [it.notes.get(WHY_TRANSLATED, "") for _, it in results.places(level)]
            # The first line of a reason, with the last one if it announces more.
            first, *more = next(filter(None, reasons), "").strip().splitlines() or [""]
            why = f"{first} {more[-1]}".rstrip(".") if more else first.rstrip(".:; ")
            yield (
                f"Level {level} was a virtual machine run by QEMU's translator (TCG), not by KVM: "
                "its numbers say nothing of virtual machines in general"
                f"{f' ({why})' if why else ''}."
            )


def _loading(results: Results) -> Iterator[str]:
    for level, load, share, looks in _looks(results):
        if share < 1:
            nothing = "; nothing is concluded from it" if share < LOADING else ""
            yield (
                f"The load {load} did not load all the time at level {level}: it did at "
                f"{round(share * looks)} of {looks} looks ({units.percent(share, sign=False)}){nothing}."
            )


def _units(analysis: Analysis) -> Iterator[tuple[str, str]]:
    """Why something smaller than blocks was tested, if it was."""
    small = grouped(
        (it.unit, (kind, it.held))
        for kind in analysis.kinds
        for it in analysis.comparisons(kind, "level")
        if it.unit != "block"
    )
    for unit, places_of in small.items():
        kinds = grouped(dict.fromkeys(places_of))
        names = listed([f"{kind} ({', '.join(loads)})" for kind, loads in kinds.items()])
        text = (
            f"The tests of {names} take each {unit} by itself, because there are fewer than five blocks "
            "of them: small differences may look surer than they are. `--blocks 5` or more, or another "
            "run beside this one, would show how much blocks differ."
        )
        yield f"tests-{next(iter(kinds))}-levels", text


def _looks(results: Results) -> list[tuple[str, str, float, int]]:
    """For levels and loads except idle: in how many observations they had their effect, and
    their total."""
    parts = results.load_checks.group_by("level", "load", maintain_order=True)
    return [
        (str(level), str(load), float(part["is_loading"].to_numpy().mean()), len(part))
        for (level, load), part in parts
        if load != IDLE
    ]

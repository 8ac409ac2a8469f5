"""What things cost at the first level, under the first load, and which timers miss their events."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from eigentime_report import units
from eigentime_report.analysis import COMPARED, MISSED, Analysis, describe, keeps_time, missed_share
from eigentime_report.conclusions import places
from eigentime_report.conclusions.families import SCATTER, Family, by_family
from eigentime_report.conclusions.sentence import MAIN, Sentence, below_main, capital
from eigentime_report.conclusions.wording import DURATION, SHARE, TYPICAL_FROM
from eigentime_report.results import Cell

# Those that readers look for, told beside the ends of many.
SLEEPS = ("nanosleep", "timerfd", "sleeper")
# What is later in so few cases is told beside the median.
ONE_IN = {0.9: "ten", 0.99: "a hundred", 0.999: "a thousand"}
EVENTS = "events"


def costs(analysis: Analysis) -> Iterator[Sentence]:
    """A sentence for each kind: from the least to the greatest of its quantities."""
    results = analysis.results
    if not results.levels or not results.loads:
        return
    level, load = results.levels[0], results.loads[0]
    where = places.level(level, results).there
    if len(results.loads) > 1:
        where += f", {places.load(load).there}"
    for kind in analysis.kinds:
        cells = _cells(analysis, kind, level, load)
        told = _timers(cells) if kind == EVENTS else _families(analysis, cells)
        if told:
            key = EVENTS if kind == EVENTS else f"descriptives-{kind}"
            about = next(iter(by_family(cell.quantity for cell in cells))).key
            yield Sentence(f"{capital(where)}, {told}.", key, MAIN, about)


def missed(analysis: Analysis) -> Iterator[Sentence]:
    """A sentence for each level where timers do not keep their interval, load after load."""
    results = analysis.results
    for level in results.levels:
        told: list[str] = []
        shares: list[float] = []
        for load in results.loads:
            cells = _cells(analysis, EVENTS, level, load)
            late = {it: missed_share(it) for it in cells if not keeps_time(it)}
            if late:
                worst = max(late, key=missed_share).quantity.title
                reach = f"{SHARE.reach([*late.values()])}, {worst} most"
                where = places.load(load).there
                told.append(f"{len(late)} of {len(cells)} ({reach}) {where}")
                shares += late.values()
        if told:
            yield Sentence(
                f"{capital(places.level(level, results).there)}, some timers do not keep their interval: "
                f"they miss more than {units.margin(MISSED)} of their events, and how even the others are "
                f"is not compared. These are {'; '.join(told)}.",
                EVENTS,
                below_main(max(shares)),
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
    for family, quantities in by_family(by_name).items():
        # Of single sleeps it is told exactly how late they end.
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
        # Of sleeps, what is beyond that which they were asked for.
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

    Instead of the middle, those that are `wanted`, unless they are too many to be told.
    """
    (first, low), *_, (last, high) = sorted((*known.items(), *known.items()), key=lambda it: it[1])
    if len(known) == 1:
        return amount.format(DURATION.reach([low]))
    ends = f"{DURATION.reach([low])} ({first}) to {DURATION.reach([high])} ({last})"
    told = amount.format(ends)
    if len(known) < TYPICAL_FROM:
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
    share = SHARE.reach(late) if late else ""
    if not even:
        return f"no event of {name} can be relied on: {share} of them are missed"
    deviations = {it.quantity.title: describe(it).sd_uncorrected for it in even}
    of = f"{len(even)} of {name}" if late else name
    told = f"events of {of} scatter {_named(deviations, SCATTER.amount)} (SD)"
    if len(late) == 1:
        return f"{told}; the other one misses {share} of its events"
    return f"{told}; the other {len(late)} miss {share} of theirs" if late else told

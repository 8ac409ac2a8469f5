"""What a reader of results must know: what speaks against them, and what is missing."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from eigentime_report.results.manifest import RUNNING, Run, Skip
from eigentime_report.units import count

# Quantity, level and load of something that was measured.
Measured = Collection[tuple[str, str, str]]


def about(
    runs: Sequence[Run],
    levels: Sequence[str],
    loads: Sequence[str],
    measured: Measured,
    found: Sequence[str],
) -> Iterator[str]:
    """All of it, the gravest first."""
    yield from _unfinished(runs)
    yield from _mixed(runs)
    yield from _of_runs(runs, lambda run: run.remarks)
    yield from _of_runs(runs, _unavailable)
    yield from _of_runs(runs, _left_out)
    yield from found
    yield from _incomparable(levels, measured)
    yield from _without_load(levels, loads, measured)


def _unfinished(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        done = f"{count(run.steps_done)} of {count(run.steps)} steps are done"
        told = f"is {run.state}: {done}, and these are used"
        if run.state == RUNNING:
            told = f"has not ended in order: the tables are what was there when it last did, and {done}"
        if not run.is_complete:
            yield f"{_named(run)} {told}. The same command goes on with it."


def _mixed(runs: Sequence[Run]) -> Iterator[str]:
    """Runs whose values are taken together, and should not be without a thought."""
    together = defaultdict(list)
    for run in runs:
        together[run.label].append(run)
    for label, alike in together.items():
        of = f" of {label}" if label else ""
        for what in ("machine", "kernel", "eigentime", "probe"):
            values = dict.fromkeys(str(getattr(run, what)) for run in alike)
            if len(values) > 1:
                yield (
                    f"The runs{of} differ in {what} ({', '.join(values)}), and their values are "
                    "taken together: to keep them apart, name their folders one by one."
                )


def _of_runs(runs: Sequence[Run], say: Callable[[Run], Iterable[str]]) -> Iterator[str]:
    """What runs say: where only some of several do, with their names."""
    said: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        for sentence in dict.fromkeys(say(run)):
            said[sentence].append(run)
    for sentence, by in said.items():
        if len(by) == len(runs):
            yield sentence
        else:
            yield f"{_named(*by)}: {sentence}"


def _unavailable(run: Run) -> Iterator[str]:
    for level in run.levels:
        if level.unavailable:
            yield f"Level {level.name} could not be had: {level.unavailable}"


def _left_out(run: Run) -> Iterator[str]:
    for what, skips in (("was not measured", run.skipped), ("failed", run.failed)):
        places: dict[tuple[str, str], list[Skip]] = defaultdict(list)
        for skip in skips:
            places[skip.what, skip.why].append(skip)
        for (name, why), there in places.items():
            yield f"{name} {what} ({_places(there, run)}): {why}"


def _places(skips: Iterable[Skip], run: Run) -> str:
    """Levels, each with its loads unless that is all of them."""
    loads: dict[str, dict[str, None]] = defaultdict(dict)
    for skip in skips:
        loads[skip.level].update(dict.fromkeys([skip.load] if skip.load else run.loads))
    # Levels of the same loads together.
    levels: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for level, own in loads.items():
        levels[tuple(own)].append(level)
    return "; ".join(
        ", ".join(alike) + ("" if set(own) >= set(run.loads) else f" under {', '.join(own)}")
        for own, alike in levels.items()
    )


def _incomparable(levels: Sequence[str], measured: Measured) -> Iterator[str]:
    """Levels of which nothing can be compared with the first one."""
    of = {level: {(what, load) for what, at, load in measured if at == level} for level in levels}
    first, *others = levels or ("",)
    for level in others:
        if of[level] | of[first] and not of[level] & of[first]:
            yield (
                f"Level {level} has no quantity in common with {first}, so it is compared with "
                "nothing: measure both by the same arguments."
            )


def _without_load(levels: Sequence[str], loads: Sequence[str], measured: Measured) -> Iterator[str]:
    for load in loads:
        there = {level for _, level, under in measured if under == load}
        missing = [level for level in levels if level not in there]
        if there and missing:
            yield f"Nothing was measured under load {load} at {', '.join(missing)}."


def _named(*runs: Run) -> str:
    """`The run of 2026-01-02 on vm`, or `The runs of 2026-01-02 and 2026-01-03 on vm`."""
    machines = dict.fromkeys(run.machine for run in runs)
    *first, last = sorted(run.begin for run in runs)
    begun = f"{', '.join(first)} and {last}" if first else last
    return f"The run{'s' if first else ''} of {begun} on {' and '.join(machines)}"

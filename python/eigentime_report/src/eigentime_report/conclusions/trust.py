"""What speaks against the numbers, or for them."""

import re
from collections.abc import Iterator

import numpy as np

from eigentime_report import units
from eigentime_report.analysis import Analysis
from eigentime_report.conclusions import places
from eigentime_report.conclusions.sentence import MAIN, Sentence, capital
from eigentime_report.results import Results
from eigentime_report.tables.text import listed

ABOUT = "trust"
# The sentence of the opening; the others are notes.
ABOUT_TRUST = "assurance"
IDLE = "idle"
# At so many of a load's looks it has to do what it is for, so that anything is concluded from it.
LOADING = 0.9

# How `eigentime bench` says what else ran, and who ran a virtual machine.
BUSY = re.compile(r"others kept the processors up to (\d+) % busy")
BY_TRANSLATOR = "is run by QEMU's translator"
# Where a level's notes have why it is.
WHY_TRANSLATED = "kvm"


def failed_loads(results: Results) -> set[tuple[str, str]]:
    """Levels and loads at which the load did not load."""
    looks = _looks(results)
    return {(level, load) for level, load, share, _ in looks if share < LOADING}


def assurance(analysis: Analysis) -> Iterator[Sentence]:
    """How far the numbers can be trusted, in one sentence; `trust` has it in full."""
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
    """Who ran virtual machines, which loads did not load, what the runs say of themselves."""
    results = analysis.results
    told = [
        *(("levels", text) for text in _machines(results)),
        *(("loads", text) for text in _loading(results)),
        *_units(analysis),
        *(
            ("levels", f"{capital(note.rstrip('.:; '))}.")
            for note in results.notes
            # What is said of a translator is told already.
            if BY_TRANSLATOR not in note
        ),
    ]
    # The gravest are the first.
    return [Sentence(text, key, -float(place), ABOUT) for place, (key, text) in enumerate(told)]


def _machines(results: Results) -> Iterator[str]:
    for level in results.levels:
        if places.is_translated(level, results):
            reasons = [it.notes.get(WHY_TRANSLATED, "") for _, it in results.places(level)]
            # The first line of a reason, with the last one where it announces more.
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
    small: dict[str, dict[str, dict[str, None]]] = {}
    for kind in analysis.kinds:
        for it in analysis.comparisons(kind, "level"):
            if it.unit != "block":
                small.setdefault(it.unit, {}).setdefault(kind, {})[it.held] = None
    for unit, kinds in small.items():
        names = listed([f"{kind} ({', '.join(loads)})" for kind, loads in kinds.items()])
        text = (
            f"The tests of {names} take each {unit} by itself, because there are fewer than five blocks "
            "of them: small differences may look surer than they are. `--blocks 5` or more, or another "
            "run beside this one, would show how much blocks differ."
        )
        yield f"tests-{next(iter(kinds))}-levels", text


def _looks(results: Results) -> list[tuple[str, str, float, int]]:
    """Levels and loads beside idle, at how many of the looks they loaded, and how many there were."""
    parts = results.load_checks.group_by("level", "load", maintain_order=True)
    return [
        (str(level), str(load), float(part["is_loading"].to_numpy().mean()), len(part))
        for (level, load), part in parts
        if load != IDLE
    ]

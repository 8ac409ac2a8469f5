"""What speaks against the numbers, or for them."""

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from eigentime_report import units
from eigentime_report.analysis import Analysis
from eigentime_report.conclusions import places
from eigentime_report.conclusions.sentence import MAIN, Sentence
from eigentime_report.results import Results
from eigentime_report.statistics import Comparison
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
    return {
        (level, load) for level, load, share, _ in _looks(results) if share < LOADING
    }


def assurance(analysis: Analysis) -> Iterator[Sentence]:
    """How far the numbers can be trusted, in one sentence; `trust` has it in full."""
    results = analysis.results
    blocks: dict[str, set[int]] = {}
    for quantity in results.quantities:
        for cell in results.cells(quantity):
            blocks.setdefault(cell.load, set()).add(len(np.unique(cell.blocks)))
    if not blocks:
        return
    by_count: dict[str, list[str]] = {}
    for load in (it for it in results.loads if it in blocks):
        least, most = min(blocks[load]), max(blocks[load])
        number = f"{least} to {most}" if least < most else str(least)
        name = f"{number} block{'' if most == 1 else 's'}"
        by_count.setdefault(name, []).append(places.load(load).there)
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
    unfinished = [run for run in results.runs if not run.is_complete]
    if unfinished:
        text += f"; {len(unfinished)} of {len(results.runs)} runs did not end in order"
    yield Sentence(f"{text}.", "levels", MAIN, ABOUT_TRUST)


def trust(analysis: Analysis) -> list[Sentence]:
    """Who ran virtual machines, which loads did not load, what the runs say of themselves."""
    told = [
        *_machines(analysis.results),
        *_loading(analysis.results),
        *_units(analysis),
        *_notes(analysis.results),
        *_agreement(analysis),
    ]
    # The gravest are the first.
    return [replace(it, weight=-float(place)) for place, it in enumerate(told)]


def _machines(results: Results) -> Iterator[Sentence]:
    for level in results.levels:
        if places.is_translated(level, results):
            reasons = [
                it.notes.get(WHY_TRANSLATED, "") for _, it in results.places(level)
            ]
            why = next((_in_short(it) for it in reasons if it), "")
            yield Sentence(
                f"Level {level} was a virtual machine run by QEMU's translator (TCG), not by KVM: "
                "its numbers say nothing of virtual machines in general"
                f"{f' ({why})' if why else ''}.",
                "levels",
                0,
                ABOUT,
            )


def _in_short(why: str) -> str:
    """The first line of a reason, with the last one where it announces more."""
    first, *more = why.strip().splitlines()
    return f"{first} {more[-1]}".rstrip(".") if more else first.rstrip(".:; ")


def _loading(results: Results) -> Iterator[Sentence]:
    for level, load, share, looks in _looks(results):
        if share < 1:
            loading = round(share * looks)
            nothing = "; nothing is concluded from it" if share < LOADING else ""
            yield Sentence(
                f"The load {load} did not load all the time at level {level}: it did at "
                f"{loading} of {looks} looks ({units.percent(share, sign=False)}){nothing}.",
                "loads",
                0,
                ABOUT,
            )


def _notes(results: Results) -> Iterator[Sentence]:
    """What the runs say of themselves, but what is said of a translator, which is told already."""
    for note in results.notes:
        if BY_TRANSLATOR not in note:
            text = note.rstrip(".:; ")
            yield Sentence(f"{text[0].upper()}{text[1:]}.", "levels", 0, ABOUT)


def _looks(results: Results) -> list[tuple[str, str, float, int]]:
    """Levels and loads beside idle, at how many of the looks they loaded, and how many there were."""
    checks = results.load_checks
    return [
        (str(level), str(load), float(part["is_loading"].to_numpy().mean()), len(part))
        for (level, load), part in checks.group_by("level", "load", maintain_order=True)
        if load != IDLE
    ]


def _units(analysis: Analysis) -> Iterator[Sentence]:
    """Why something smaller than blocks was tested, if it was: a sentence for each reason."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for kind in analysis.kinds:
        for compared in analysis.comparisons(kind, "level"):
            if compared.unit != "block":
                loads = reasons.setdefault(compared.unit, {}).setdefault(kind, [])
                if compared.held not in loads:
                    loads.append(compared.held)
    for unit, kinds in reasons.items():
        names = listed(
            [f"{kind} ({', '.join(loads)})" for kind, loads in kinds.items()]
        )
        yield Sentence(
            f"The tests of {names} take each {unit} by itself, because there are fewer than five "
            f"blocks of them: small differences may look surer than they are. `--blocks 5` or more, "
            f"or another run beside this one, would show how much blocks differ.",
            f"tests-{next(iter(kinds))}-levels",
            0,
            ABOUT,
        )


def _agreement(analysis: Analysis) -> Iterator[Sentence]:
    """Do tests of means and tests of ranks contradict each other?"""
    tested = [
        compared
        for kind in analysis.kinds
        for compared in analysis.comparisons(kind, "level")
        if compared.comparison.agreement is not None
    ]
    odd = [it for it in tested if contradicts(it.comparison)]
    if not odd:
        return
    names = listed(list(dict.fromkeys(it.quantity.title for it in odd)))
    text = (
        f"Tests of means and tests of ranks contradict each other in {len(odd)} of "
        f"{units.count(len(tested))} comparisons of levels: {names}, whose verdicts are less sure"
    )
    yield Sentence(f"{text}.", f"tests-{tested[0].quantity.kind}-levels", 0, ABOUT)


def contradicts(comparison: Comparison) -> bool:
    """Do tests of means and of ranks find differences to opposite sides?

    That one of them finds none is no contradiction: tests of ranks find less in few values.
    """
    ranks = {(it.i, it.j): it for it in comparison.dunn}
    alpha = comparison.alpha
    return any(
        pair.p is not None
        and rank.p is not None
        and max(pair.p, rank.p) < alpha
        and (pair.difference or 0.0) * rank.difference < 0
        for pair in comparison.pairs
        if (rank := ranks.get((pair.i, pair.j)))
    )

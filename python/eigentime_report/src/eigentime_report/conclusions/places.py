"""The wording of levels and loads."""

from collections.abc import Sequence
from dataclasses import dataclass

from eigentime_report.basics import grouped, listed
from eigentime_report.results import Results


@dataclass(frozen=True)
class Place:
    """A level or a load: its name, and the phrase for being there."""

    noun: str
    there: str


LEVELS = {
    "baseline": ("the host", "on the host"),
    "namespace": ("a time namespace", "in a time namespace"),
    "container": ("a container", "in a container"),
    "vm": ("a virtual machine", "in a virtual machine"),
}
LOADS = {
    "idle": ("an idle machine", "when idle"),
    "cpu": ("CPU load", "under CPU load"),
    "io": ("IO load", "under IO load"),
    "network": ("network load", "under network load"),
}
TRANSLATED = "tcg"


def level(name: str, results: Results) -> Place:
    """A level; it is mentioned if a translator ran the virtual machine.

    If several folders are kept apart, its folder is mentioned, too.
    """
    label = label_of(name, results)
    own = name.removeprefix(f"{label}: ")
    noun, there = LEVELS.get(own, (f"level {own}", f"at level {own}"))
    by = " by TCG" if is_translated(name, results) else ""
    of = f" of {label}" if label else ""
    return Place(f"{noun}{by}{of}", f"{there}{by}{of}")


def label_of(level: str, results: Results) -> str:
    """The folder of a level if several are kept apart, otherwise nothing."""
    labels = [run.label for run in results.runs if run.label]
    return max((it for it in labels if level.startswith(f"{it}: ")), key=len, default="")


def at(names: Sequence[str], results: Results) -> str:
    """`on the host and in a container`; for all levels of folders, `in q1 and q2`."""
    levels = grouped((label_of(it, results), it) for it in results.levels)
    whole = [label for label, own in levels.items() if label and {*own} <= {*names}]
    told = [level(it, results).there for it in names if label_of(it, results) not in whole]
    return listed([*told, f"in {listed(whole)}"] if whole else told)


def load(name: str) -> Place:
    """A load."""
    return Place(*LOADS.get(name, (f"load {name}", f"under load {name}")))


def is_translated(name: str, results: Results) -> bool:
    """Whether it was a virtual machine run by QEMU's translator."""
    return any(it.accelerator == TRANSLATED for _, it in results.places(name))

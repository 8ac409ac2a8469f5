"""`manifest.json`: what was measured where, by whom and with which outcome."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigentime_report.results.errors import FolderError, unreadable
from eigentime_report.results.json_tree import Tree
from eigentime_report.results.visible import visible

FILE = "manifest.json"
# The version of the form that this code reads.
FORM = 1
COMPLETE = "complete"
RUNNING = "running"
STATES = (RUNNING, "interrupted", "incomplete", COMPLETE)

# A seed has 64 bits.
MOST_SEED = 2**64 - 1
# Each step of each of them is looked for in the tables.
MOST_BLOCKS = 100_000

MEASURE = "name a folder that `eigentime bench --out` has written"
AGAIN = "take it from a copy, or measure again"


@dataclass(frozen=True)
class Finding:
    """What a check of the doctor found at a level; `facts` are told apart by `labels`."""

    key: str
    verdict: str
    found: str
    facts: tuple["Fact", ...]


@dataclass(frozen=True)
class Fact:
    """Something that was found out; None if it could not be read."""

    name: str
    labels: Mapping[str, str]
    value: int | float | bool | str | None


@dataclass(frozen=True)
class Level:
    """What is known of a level: how it was made, and what the doctor said there."""

    name: str
    command: tuple[str, ...]
    notes: Mapping[str, str]
    unavailable: str | None
    findings: tuple[Finding, ...]

    @property
    def accelerator(self) -> str | None:
        """What ran the code of a virtual machine: `kvm`, `tcg`."""
        return self.notes.get("accelerator")


@dataclass(frozen=True)
class Session:
    """When a run was worked on, in RFC 3339; `end` is None if it has not ended in order."""

    begin: str
    end: str | None


@dataclass(frozen=True)
class Skip:
    """What was not measured, and why; under all loads if `load` is None."""

    level: str
    load: str | None
    what: str
    why: str


# Clocks are compared once in each block.
WARP = "warp"

# What measurements of a kind are told apart by, and what says how many there are of it. The slack of
# sleeps is not among them: without one, it is the one that the probe is started with.
TOLD_APART: Mapping[str, tuple[str, ...]] = {
    "calls": ("metric",),
    "read": ("source", "cache"),
    "sleep": ("method", "interval_ns", "policy"),
    "events": ("source", "interval_ns"),
    WARP: (),
}
COUNTED = {"calls": "records"}


@dataclass(frozen=True)
class Planned:
    """A measurement of the plan under a load, at each level: how often in all blocks together."""

    load: str
    kind: str
    # By the columns of its table.
    key: tuple[str | int, ...]
    count: int

    def share(self, block: int, blocks: int) -> int:
        """The part of a block: the first ones have what does not divide."""
        return self.count // blocks + (block < self.count % blocks)


@dataclass(frozen=True)
class Metric:
    """A row of the probe's table of metrics: what the values of `column` are, and of which unit."""

    kind: str
    name: str
    column: str
    unit: str
    meaning: str
    # `lower`, or `closer_to_interval`.
    better: str
    # How much of each value was asked for, in its unit; the rest is latency.
    asked: int | None


@dataclass(frozen=True)
class Run:
    """A run of `eigentime bench`."""

    folder: Path
    run: str
    machine: str
    kernel: str
    eigentime: str
    probe: str
    preset: str
    blocks: int
    seed: int
    cpu: int | None
    levels: tuple[Level, ...]
    loads: tuple[str, ...]
    # Kinds of measurements of the plan: `calls`, `read`, `sleep`, `events`, `warp`.
    kinds: frozenset[str]
    planned: tuple[Planned, ...]
    state: str
    sessions: tuple[Session, ...]
    steps: int
    steps_done: int
    skipped: tuple[Skip, ...]
    failed: tuple[Skip, ...]
    remarks: tuple[str, ...]
    # Before its levels' names, where folders are kept apart.
    label: str = ""
    # None from a version of Eigentime that did not write them.
    metrics: tuple[Metric, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Is all measured that can be?"""
        return self.state == COMPLETE

    @property
    def left_out(self) -> bool:
        """Was anything not measured that was to be?"""
        gone = any(level.unavailable for level in self.levels)
        return gone or bool(self.skipped or self.failed)

    @property
    def begin(self) -> str:
        """When it was begun."""
        return self.sessions[0].begin if self.sessions else "an unknown time"

    def name_of(self, level: str) -> str:
        """What a level of it is called in these results."""
        return f"{self.label}: {level}" if self.label else level


def read(folder: Path) -> tuple[Run, ...]:
    """The runs of a folder."""
    file = folder / FILE
    root = Tree(_document(folder, file), file, AGAIN)
    form = root["form"].count()
    if form != FORM:
        raise FolderError(
            file,
            f"its form is {form}, and this version knows {FORM}",
            "report with the version of Eigentime that has measured it",
        )
    metrics = tuple(map(_metric, root.get("metrics") or ()))
    runs = tuple(_run(folder, it, metrics) for it in root["runs"])
    if not runs:
        raise FolderError(file, "it has no runs", AGAIN)
    for run in runs:
        if not run.kinds:
            reason = f"run {run.run!r} was to measure nothing"
            raise FolderError(file, reason, AGAIN)
    return runs


def _document(folder: Path, file: Path) -> Any:
    if not folder.is_dir():
        reason = (
            "this is not a folder" if folder.exists() else "there is no such folder"
        )
        raise FolderError(folder, reason, MEASURE)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FolderError(
            file, "it is not there, so this is no folder of results", MEASURE
        ) from None
    except OSError as error:
        raise unreadable(file, error) from error
    except UnicodeDecodeError as error:
        raise FolderError(file, f"it is no text: {error}", AGAIN) from error
    try:
        return json.loads(text, object_pairs_hook=_members, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise FolderError(file, f"it is no JSON: {error}", AGAIN) from error


def _no_number(constant: str) -> None:
    """Python takes them for JSON, and nobody writes them."""
    raise ValueError(f"{constant} is no number")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Names are keys, too: those of levels."""
    return {visible(key): value for key, value in pairs}


def _metric(it: Tree) -> Metric:
    asked = it.get("asked")
    return Metric(
        kind=it["kind"].text(),
        name=it["name"].text(),
        column=it["column"].text(),
        unit=it["unit"].text(),
        meaning=it["meaning"].text(),
        better=it["better"].one_of(("lower", "closer_to_interval")),
        asked=asked.count() if asked else None,
    )


def _run(folder: Path, it: Tree, metrics: tuple[Metric, ...]) -> Run:
    by, plan = it["by"], it["plan"]
    cpu = plan.get("cpu")
    return Run(
        folder=folder,
        run=it["run"].text(),
        machine=by["machine"].text(),
        kernel=by["kernel"].text(),
        eigentime=by["eigentime"].text(),
        probe=by["probe"].text(),
        preset=plan["preset"].text(),
        blocks=plan["blocks"].count(MOST_BLOCKS),
        seed=plan["seed"].count(MOST_SEED),
        cpu=cpu.count() if cpu else None,
        levels=tuple(_level(place, it["levels"]) for place in plan["levels"]),
        loads=tuple(under["load"].text() for under in plan["loads"]),
        kinds=frozenset(
            measurement["kind"].text()
            for under in plan["loads"]
            for measurement in under["measurements"]
        ),
        planned=tuple(
            _planned(under["load"].text(), measurement, plan["blocks"].count())
            for under in plan["loads"]
            for measurement in under["measurements"]
            if measurement["kind"].text() in TOLD_APART
        ),
        state=it["state"].one_of(STATES),
        sessions=tuple(
            Session(session["begin"].text(), session.text_of("end"))
            for session in it["sessions"]
        ),
        steps=it["steps"].count(),
        steps_done=it["steps_done"].count(it["steps"].count()),
        skipped=tuple(map(_skip, it["skipped"])),
        failed=tuple(map(_skip, it["failed"])),
        remarks=tuple(remark.text() for remark in it["summary"]["remarks"]),
        metrics=metrics,
    )


def _planned(load: str, it: Tree, blocks: int) -> Planned:
    kind = it["kind"].text()
    key = tuple(
        it[name].count() if name == "interval_ns" else it[name].text()
        for name in TOLD_APART[kind]
    )
    if kind == WARP:
        return Planned(load, kind, key, blocks)
    return Planned(load, kind, key, it[COUNTED.get(kind, "count")].count())


def _level(place: Tree, all_facts: Tree) -> Level:
    name = place["name"].text()
    # A level at which nobody has looked yet has none.
    facts = all_facts.get(name)
    report = facts.get("facts") if facts else None
    command = place.get("command")
    return Level(
        name=name,
        command=tuple(word.text() for word in command) if command else (),
        notes={key: it.lines() for key, it in facts["notes"].items()} if facts else {},
        unavailable=facts.text_of("unavailable") if facts else None,
        findings=tuple(map(_finding, report["findings"])) if report else (),
    )


def _finding(it: Tree) -> Finding:
    facts = it.get("facts")
    return Finding(
        key=it["key"].text(),
        verdict=it["verdict"].text(),
        found=it["found"].text(),
        facts=tuple(map(_fact, facts)) if facts else (),
    )


def _fact(it: Tree) -> Fact:
    labels = it.get("labels")
    values = [it.get(kind) for kind in ("count", "number", "flag", "text")]
    known = [value.plain() for value in values if value]
    return Fact(
        name=it["name"].text(),
        labels={key: label.text() for key, label in labels.items()} if labels else {},
        value=known[0] if known else None,
    )


def _skip(it: Tree) -> Skip:
    return Skip(
        it["level"].text(), it.text_of("load"), it["what"].text(), it["why"].text()
    )

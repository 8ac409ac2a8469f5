"""`manifest.json`: what was measured where, with which programs, and the outcome."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigentime_report.results.tables import MOST, VERSION, FolderError, unreadable, visible

FILE = "manifest.json"
# The version of the format that this code reads.
FORM = 1
COMPLETE = "complete"
RUNNING = "running"
STATES = (RUNNING, "interrupted", "incomplete", COMPLETE)
# Each block is searched for in the tables.
MOST_BLOCKS = 100_000

MEASURE = "name a folder that `eigentime bench --out` has written"


@dataclass(frozen=True)
class Finding:
    """A finding of the doctor at a level."""

    verdict: str
    found: str


@dataclass(frozen=True)
class Level:
    """A level: how it was set up, and the doctor's report there."""

    name: str
    command: tuple[str, ...]
    notes: Mapping[str, str]
    unavailable: str | None
    findings: tuple[Finding, ...]

    @property
    def accelerator(self) -> str | None:
        """What executed a virtual machine's code: `kvm`, `tcg`."""
        return self.notes.get("accelerator")


@dataclass(frozen=True)
class Skip:
    """Something that was not measured, and why; under all loads if `load` is None."""

    level: str
    what: str
    why: str
    load: str | None = None


CLOSER = "closer_to_interval"
UNIT = "ns"


@dataclass(frozen=True)
class Metric:
    """The meaning of a name in the rows of a kind."""

    kind: str
    name: str
    meaning: str
    # `lower`, or `CLOSER` to the requested interval.
    better: str
    # The requested part of each value.
    asked: int | None


# For manifests of earlier versions, which have no metrics: the meaning of each kind, and the calls
# that sleep, with their requested nanoseconds.
EARLIER = {
    "calls": "Duration of a call",
    "read": "Duration of a reading",
    "sleep": "Latency of a sleep",
    "events": "Interval between two events",
}
ASKED = {"clock_nanosleep": 100_000_000, "nanosleep": 100_000_000}


# Clocks are compared once in each block.
WARP = "warp"

# What distinguishes measurements of a kind. The slack of sleeps is not included: without one, it is
# the one that the probe is started with.
TOLD_APART: Mapping[str, tuple[str, ...]] = {
    "calls": ("metric",),
    "read": ("source", "cache"),
    "sleep": ("method", "interval_ns", "policy"),
    "events": ("source", "interval_ns"),
    WARP: (),
}
# The column with their number.
COUNTED = {"calls": "records"}


@dataclass(frozen=True)
class Planned:
    """A planned measurement under a load, at each level: its number in all blocks together."""

    load: str
    kind: str
    # By the columns of its table.
    key: tuple[str | int, ...]
    count: int

    def share(self, block: int, blocks: int) -> int:
        """The share of a block: the first ones have the remainder."""
        return self.count // blocks + (block < self.count % blocks)


@dataclass(frozen=True)
class Run:
    """A run of measurements."""

    folder: Path
    run: str
    machine: str
    kernel: str
    eigentime: str
    probe: str
    preset: str
    blocks: int
    levels: tuple[Level, ...]
    loads: tuple[str, ...]
    planned: tuple[Planned, ...]
    metrics: tuple[Metric, ...]
    state: str
    begin: str
    steps: int
    steps_done: int
    skipped: tuple[Skip, ...]
    failed: tuple[Skip, ...]
    remarks: tuple[str, ...]
    # The prefix of its levels' names, if folders are kept apart.
    label: str = ""

    @property
    def kinds(self) -> set[str]:
        """Kinds of measurements of the plan: `calls`, `read`, `sleep`, `events`, `warp`."""
        return {it.kind for it in self.planned}

    @property
    def is_complete(self) -> bool:
        """Whether everything that can be measured has been measured."""
        return self.state == COMPLETE

    def name_of(self, level: str) -> str:
        """The name of one of its levels in these results."""
        return f"{self.label}: {level}" if self.label else level


# The shapes of documents: a text; one with several lines, such as the last words of a program; or a
# count up to a maximum; in lists, in objects with these members (`?`: may be missing or null), or
# in objects with members of any name (`*`).
TEXT, LINES, COUNT, ANY = "text", "lines", MOST, None
SKIP = {"level": TEXT, "load?": TEXT, "what": TEXT, "why": TEXT}
METRIC = {**dict.fromkeys(("kind", "name", "unit", "meaning", "better"), TEXT), "asked?": COUNT}
FACTS = {
    "notes": {"*": LINES},
    "facts?": {"findings": [{"verdict": TEXT, "found": TEXT}]},
    "unavailable?": TEXT,
}
RUN = {
    "run": TEXT,
    "by": dict.fromkeys(("machine", "kernel", "eigentime", "probe"), TEXT),
    "plan": {
        "preset": TEXT,
        "levels": [{"name": TEXT, "command?": [TEXT]}],
        "blocks": MOST_BLOCKS,
        "loads": [{"load": TEXT, "measurements": [{"*": ANY}]}],
    },
    "state": STATES,
    "sessions": [{"begin": TEXT}],
    "levels": {"*": FACTS},
    "steps": COUNT,
    "steps_done": COUNT,
    "skipped": [SKIP],
    "failed": [SKIP],
    "summary": {"remarks": [TEXT]},
}


class _Wrong(ValueError):
    """The position of an error in a document."""

    def __init__(self, at: str, reason: str) -> None:
        super().__init__(f"{at or 'the document'} {reason}")


def read(folder: Path) -> tuple[Run, ...]:
    """Reads the runs of a folder."""
    file = folder / FILE
    document = _document(folder, file)
    try:
        form = _taken({"form": COUNT}, document)["form"]
        if form != FORM:
            reason = f"its form is {form}, and this version knows {FORM}"
            raise FolderError(file, reason, VERSION)
        found = _taken({"metrics?": [METRIC], "runs": [RUN]}, document)
        metrics = tuple(
            _metric(it, f"metrics[{at}]") for at, it in enumerate(found["metrics"] or ())
        )
        runs = tuple(
            _run(folder, it, f"runs[{at}]", metrics) for at, it in enumerate(found["runs"])
        )
    except _Wrong as wrong:
        raise FolderError(file, str(wrong)) from None
    if not runs:
        raise FolderError(file, "it has no runs")
    for run in runs:
        if not run.kinds:
            raise FolderError(file, f"run {run.run!r} was to measure nothing")
    return runs


def _document(folder: Path, file: Path) -> Any:
    if not folder.is_dir():
        what = "this is not a folder" if folder.exists() else "there is no such folder"
        raise FolderError(folder, what, MEASURE)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        what = "it is not there, so this is no folder of results"
        raise FolderError(file, what, MEASURE) from None
    except OSError as error:
        raise unreadable(file, error) from error
    except UnicodeDecodeError as error:
        raise FolderError(file, f"it is no text: {error}") from error

    def no_number(constant: str) -> None:
        # Python accepts them as JSON, but nobody writes them.
        raise ValueError(f"{constant} is no number")

    try:
        return json.loads(text, parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        raise FolderError(file, f"it is no JSON: {error}") from error


def _metric(it: dict[str, Any], at: str) -> Metric:
    if (unit := it.pop("unit")) != UNIT:
        raise _Wrong(f"{at}.unit", f"is {unit!r}, and this version reads values in {UNIT}")
    return Metric(**it)


def _earlier(kind: str, name: str) -> Metric:
    """The meaning of a name if the manifest has no metrics."""
    better = CLOSER if kind == "events" else "lower"
    asked = ASKED.get(name) if kind == "calls" else None
    return Metric(kind, name, EARLIER[kind], better, asked)


def _run(folder: Path, it: Mapping[str, Any], at: str, metrics: tuple[Metric, ...]) -> Run:
    plan = it["plan"]
    if it["steps_done"] > it["steps"]:
        raise _Wrong(f"{at}.steps_done", f"is more than {it['steps']}")
    planned = [
        _planned(under["load"], measurement, plan["blocks"], where)
        for place, under in enumerate(plan["loads"])
        for number, measurement in enumerate(under["measurements"])
        for where in [f"{at}.plan.loads[{place}].measurements[{number}]"]
    ]
    known = {(metric.kind, metric.name) for metric in metrics}
    names = {(it.kind, str(it.key[0])): None for it in planned if it and it.kind != WARP}
    unknown = [name for name in names if name not in known]
    return Run(
        folder=folder,
        run=it["run"],
        **it["by"],
        preset=plan["preset"],
        blocks=plan["blocks"],
        # A level that was not measured yet has no facts.
        levels=tuple(_level(place, it["levels"].get(place["name"])) for place in plan["levels"]),
        loads=tuple(under["load"] for under in plan["loads"]),
        planned=tuple(filter(None, planned)),
        metrics=metrics + tuple(_earlier(kind, name) for kind, name in unknown),
        state=it["state"],
        begin=it["sessions"][0]["begin"] if it["sessions"] else "an unknown time",
        steps=it["steps"],
        steps_done=it["steps_done"],
        skipped=tuple(Skip(**skip) for skip in it["skipped"]),
        failed=tuple(Skip(**skip) for skip in it["failed"]),
        remarks=it["summary"]["remarks"],
    )


def _level(place: Mapping[str, Any], facts: Mapping[str, Any] | None) -> Level:
    facts = facts or {"notes": {}, "unavailable": None, "facts": None}
    findings = facts["facts"]["findings"] if facts["facts"] else ()
    found = tuple(Finding(**it) for it in findings)
    command = place["command"] or ()
    return Level(place["name"], command, facts["notes"], facts["unavailable"], found)


def _planned(load: str, it: dict[str, Any], blocks: int, at: str) -> Planned | None:
    kind = _taken({"kind": TEXT}, it, at)["kind"]
    if kind not in TOLD_APART:
        return None
    key = {name: COUNT if name == "interval_ns" else TEXT for name in TOLD_APART[kind]}
    counted = COUNTED.get(kind, "count")
    found = _taken(key if kind == WARP else {**key, counted: COUNT}, it, at)
    count = blocks if kind == WARP else found[counted]
    return Planned(load, kind, tuple(found[name] for name in key), count)


def _taken(shape: Any, value: Any, at: str = "") -> Any:
    """The part of a document with this shape, with its texts made visible."""
    if shape is ANY:
        return value
    if isinstance(shape, int):
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise _Wrong(at, "is no count")
        if value > shape:
            raise _Wrong(at, f"is more than {shape}")
        return value
    if isinstance(shape, str | tuple):
        if not isinstance(value, str):
            raise _Wrong(at, "is no text")
        if isinstance(shape, tuple) and value not in shape:
            raise _Wrong(at, f"is {value!r}, and none of {', '.join(shape)}")
        lines = value.split("\n") if shape == LINES else [value]
        return "\n".join(map(visible, lines))
    if isinstance(shape, list):
        if not isinstance(value, list):
            raise _Wrong(at, "is no list")
        return tuple(_taken(shape[0], it, f"{at}[{place}]") for place, it in enumerate(value))
    if not isinstance(value, dict):
        raise _Wrong(at, "is no object")
    if "*" in shape:
        return {visible(key): _taken(shape["*"], it, f"{at}.{key}") for key, it in value.items()}
    found = {}
    for name, own in shape.items():
        key = name.rstrip("?")
        if name not in value and key == name:
            raise _Wrong(at, f"has no {key!r}")
        is_there = key == name or value.get(key) is not None
        found[key] = _taken(own, value[key], f"{at}.{key}".lstrip(".")) if is_there else None
    return found

"""The folder of a run: all its steps, in an order drawn by lot."""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from making import manifest
from making.manifest import Skip
from making.quantities import Calls, Events, Place, Quantity, Reads, Sleeps
from making.tables import TABLE_OF, TABLES, Writer

# What a step takes, about.
STEP_NS = 150_000_000
BEGIN_NS = 1_790_000_000_000_000_000


def folder(
    path: Path | str,
    *,
    calls: Sequence[Calls] = (),
    reads: Sequence[Reads] = (),
    sleeps: Sequence[Sleeps] = (),
    events: Sequence[Events] = (),
    warps: Sequence[str] = (),
    backwards: Mapping[tuple[str, str], int] | None = None,
    levels: Sequence[str] = ("baseline", "namespace"),
    loads: Sequence[str] = ("idle",),
    blocks: int = 10,
    blocks_done: int | None = None,
    seed: int = 7,
    run: str | None = None,
    machine: str = "testbed",
    kernel: str = "Linux 6.12.1 x86_64",
    eigentime: str = "0.4.0",
    probe: str = "1234567 bytes, 0123456789abcdef",
    preset: str = "standard",
    begin: str = "2026-09-21T14:13:20Z",
    state: str = "complete",
    notes: Mapping[str, Mapping[str, str]] | None = None,
    findings: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    unavailable: Mapping[str, str] | None = None,
    skipped: Sequence[Skip] = (),
    failed: Sequence[Skip] = (),
    remarks: Sequence[str] = (),
    looks: int = 2,
    load_percent: Mapping[str, float] | None = None,
) -> Path:
    """Write a results folder and return its path.

    `levels` are in the plan's order, the first is compared with. `warps` are clocks that
    are compared, and `backwards` says how often one did at a level, by level and clock.
    `blocks_done` is less than `blocks` in a run that is not complete; one whose `state`
    is not `complete` has a journal. `notes` and `findings` are by level (`{"vm":
    {"accelerator": "tcg"}}`), `unavailable` says why a level could not be had: it has no
    rows. What is `without` a place is skipped there. `loads.parquet` has `looks` rows for
    each level and load of a block, of `load_percent` processor time by load.
    """
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    quantities: list[Quantity] = [*calls, *reads, *sleeps, *events]
    name = run or str(uuid.uuid5(uuid.NAMESPACE_URL, f"{path.name} {machine} {seed}"))
    study = _Study(
        head={"run": name, "machine": machine},
        quantities=quantities,
        clocks=list(warps),
        backwards=dict(backwards or {}),
        levels=[it for it in levels if it not in (unavailable or {})],
        loads=list(loads),
        blocks=blocks,
        lots=np.random.default_rng(seed),
        looks=looks,
        percent={"idle": 1.0, **(load_percent or {})},
    )
    steps, done = study.write(path, blocks if blocks_done is None else blocks_done)
    said = {
        "run": name,
        "by": {"machine": machine, "kernel": kernel, "eigentime": eigentime, "probe": probe},
        "plan": {
            "preset": preset,
            "levels": [{"name": it, "command": None} for it in levels],
            "blocks": blocks,
            "seed": seed,
            "cpu": None,
            "loads": [manifest.plan_of(quantities, warps, levels, load) for load in loads],
        },
        "state": state,
        "sessions": [{"begin": begin, "end": None if state == "running" else _after(begin, done)}],
        "levels": {
            level: manifest.facts_of(
                probe,
                eigentime,
                (notes or {}).get(level, {}),
                (findings or {}).get(level, ()),
                (unavailable or {}).get(level),
            )
            for level in sorted(levels)
        },
        "steps": steps,
        "steps_done": done,
        "skipped": [it.document() for it in (*skipped, *_without(quantities, study))],
        "failed": [it.document() for it in failed],
        # The summary has remarks and no rows: reports make their own.
        "summary": {"rows": [], "warps": [], "remarks": list(remarks)},
    }
    manifest.write(path, [said])
    if state != "complete":
        journal = path / "journal"
        journal.mkdir()
        (journal / "lock").touch()
        head = {"step": None, "level": levels[0], "load": loads[0], "block": 0}
        line = json.dumps({**head, "order": 0, "begin_ns": BEGIN_NS})
        (journal / "0000000.jsonl").write_text(line + "\n")
    return path


def _without(quantities: Sequence[Quantity], study: "_Study") -> Iterator[Skip]:
    """Of what is measured elsewhere, and why it is not there."""
    for it in quantities:
        for level in study.levels:
            for load in study.loads:
                if not it.is_at(level, load):
                    yield Skip(level, it.subject, "it cannot be had here", load)


def _after(begin: str, steps: int) -> str:
    end = datetime.fromisoformat(begin) + timedelta(microseconds=steps * STEP_NS / 1e3)
    return end.strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class _Study:
    """What is measured where."""

    head: dict[str, Any]
    quantities: list[Quantity]
    clocks: list[str]
    backwards: dict[tuple[str, str], int]
    levels: list[str]
    loads: list[str]
    blocks: int
    lots: np.random.Generator
    looks: int
    percent: dict[str, float]

    def write(self, path: Path, blocks_done: int) -> tuple[int, int]:
        """Write all tables; return how many steps there are, and how many are done."""
        writers = {name: Writer(path, name) for name in TABLES}
        order = steps = done = 0
        for place, measured in self._groups():
            steps += len(measured)
            if place.block >= blocks_done:
                continue
            done += len(measured)
            begin = order
            for it in measured:
                head = self._head(place, order)
                for rows in self._rows(it, place):
                    table = "warps" if it is None else TABLE_OF[it.kind]
                    writers[table].add({**head, **rows})
                order += 1
            for _ in range(self.looks):
                head = {**self._head(place, begin), "order": order}
                writers["loads"].add({**head, **self._look(place)})
            order += 1
        for writer in writers.values():
            writer.finish()
        return steps, done

    def _groups(self) -> Iterator[tuple[Place, list[Quantity | None]]]:
        """What is done with one probe; None is the comparison of clocks."""
        drawn = self.lots.permutation
        for block in range(self.blocks):
            for load in drawn(self.loads):
                for level in drawn(self.levels):
                    place = Place(str(level), str(load), block)
                    here: list[Quantity | None] = [
                        it
                        for it in self.quantities
                        if it.is_at(place.level, place.load) and self._share(it, block)
                    ]
                    if self.clocks:
                        here.append(None)
                    yield place, [here[which] for which in drawn(len(here))]

    def _share(self, it: Quantity, block: int) -> int:
        """A block's part of what is measured: the first ones have what does not divide."""
        return it.count // self.blocks + (block < it.count % self.blocks)

    def _head(self, place: Place, order: int) -> dict[str, Any]:
        return {
            **self.head,
            "level": place.level,
            "load": place.load,
            "block": place.block,
            "order": order,
            "begin_ns": BEGIN_NS + order * STEP_NS,
        }

    def _rows(self, it: Quantity | None, place: Place) -> list[dict[str, Any]]:
        if it is not None:
            return it.step(place, self.lots, self._share(it, place.block))
        return [
            self._warp(clock, pair, place) for clock in self.clocks for pair in ((0, 0), (0, 1))
        ]

    def _warp(self, clock: str, pair: tuple[int, int], place: Place) -> dict[str, Any]:
        """Steps back are all seen in the first block, between two processors."""
        seen = pair[0] != pair[1] and place.block == 0
        backwards = self.backwards.get((place.level, clock), 0) if seen else 0
        return {
            "clock": clock,
            "cpu": pair[0],
            "other_cpu": pair[1],
            "looked_ns": 200_000_000,
            "readings": 100_000,
            "backwards": backwards,
            "worst_ns": 70.0 if backwards else 0.0,
            "smallest_visible_ns": 26.0 + 30.0 * pair[1],
        }

    def _look(self, place: Place) -> dict[str, Any]:
        percent = self.percent.get(place.load, 99.0)
        return {
            "is_loading": True,
            "how": f"{place.load} as it should be",
            "looked_ns": 1_000_000_000,
            "cpu_percent": percent + self.lots.random() / 2,
            "context_switches_per_second": 20 * percent,
            "interrupts_per_second": 100 + 10 * percent,
            "numbers_json": "{}",
        }

"""`manifest.json`, as docs/bench/manifest.schema.json has it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from making.quantities import Quantity

FORM = 1


@dataclass(frozen=True)
class Skip:
    """What was not measured, and why; `load` is None where that is so under all."""

    level: str
    what: str
    why: str
    load: str | None = None

    def document(self) -> dict[str, Any]:
        """As the manifest has it."""
        return {
            "level": self.level,
            "load": self.load,
            "what": self.what,
            "why": self.why,
        }


@dataclass(frozen=True)
class Run:
    """What a manifest says of a run."""

    run: str
    machine: str
    kernel: str
    eigentime: str
    probe: str
    preset: str
    levels: Sequence[str]
    loads: Sequence[str]
    quantities: Sequence[Quantity]
    warps: Sequence[str]
    blocks: int
    seed: int
    state: str
    begin: str
    end: str | None
    notes: Mapping[str, Mapping[str, str]]
    findings: Mapping[str, Sequence[Mapping[str, Any]]]
    unavailable: Mapping[str, str]
    steps: int
    steps_done: int
    skipped: Sequence[Skip]
    failed: Sequence[Skip]
    remarks: Sequence[str]

    def document(self) -> dict[str, Any]:
        """As the manifest has it. The summary has remarks and no rows: reports make their own."""
        return {
            "run": self.run,
            "by": {
                "machine": self.machine,
                "kernel": self.kernel,
                "eigentime": self.eigentime,
                "probe": self.probe,
            },
            "plan": {
                "preset": self.preset,
                "levels": [{"name": it, "command": None} for it in self.levels],
                "blocks": self.blocks,
                "seed": self.seed,
                "cpu": None,
                "loads": [self._under(load) for load in self.loads],
            },
            "state": self.state,
            "sessions": [{"begin": self.begin, "end": self.end}],
            "levels": {level: self._level(level) for level in sorted(self.levels)},
            "steps": self.steps,
            "steps_done": self.steps_done,
            "skipped": [it.document() for it in self.skipped],
            "failed": [it.document() for it in self.failed],
            "summary": {"rows": [], "warps": [], "remarks": list(self.remarks)},
        }

    def _under(self, load: str) -> dict[str, Any]:
        measurements = [
            {"kind": it.kind, **it.plan()}
            for it in self.quantities
            if any(it.is_at(level, load) for level in self.levels)
        ]
        if self.warps:
            warp = {"kind": "warp", "seconds": 2.0, "clocks": list(self.warps)}
            measurements.append(warp)
        return {"load": load, "measurements": measurements}

    def _level(self, level: str) -> dict[str, Any]:
        unavailable = self.unavailable.get(level)
        report = None
        if unavailable is None:
            findings = [dict(it) for it in self.findings.get(level, [])]
            report = {
                "schema": 1,
                "version": self.eigentime,
                "verdict": "ok",
                "findings": findings,
            }
        return {
            "notes": {"probe": self.probe, **self.notes.get(level, {})},
            "facts": report,
            "unavailable": unavailable,
        }


def write(folder: Path, runs: Sequence[Mapping[str, Any]]) -> None:
    """Write the manifest of these runs."""
    text = json.dumps({"form": FORM, "runs": list(runs)}, indent=2, ensure_ascii=False)
    (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")

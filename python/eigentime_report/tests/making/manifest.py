"""`manifest.json`, as docs/bench/manifest.schema.json has it."""

import json
import re
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
        return {"level": self.level, "load": self.load, "what": self.what, "why": self.why}


# What the probe's table of metrics says, as `eigentime bench` writes it to each manifest.
COLUMNS = Path(__file__).parents[4] / "docs" / "bench" / "columns.md"
ROW = re.compile(r"^\| (\w+) \| `(\w+)` \| `(\w+)` \| (\w+) \| (.*) \|$", re.MULTILINE)


def metrics() -> list[dict[str, Any]]:
    """The metrics of a manifest."""
    return [
        {
            "kind": kind,
            "name": name,
            "column": column,
            "unit": unit,
            "meaning": meaning,
            "better": "closer_to_interval" if kind == "events" else "lower",
            "asked": 100_000_000 if "sleep of 100 ms" in meaning else None,
        }
        for kind, name, column, unit, meaning in ROW.findall(COLUMNS.read_text("utf-8"))
    ]


def plan_of(
    quantities: Sequence[Quantity], warps: Sequence[str], levels: Sequence[str], load: str
) -> dict[str, Any]:
    """What is to be measured under a load."""
    measurements = [
        {"kind": it.kind, **it.plan()}
        for it in quantities
        if any(it.is_at(level, load) for level in levels)
    ]
    if warps:
        measurements.append({"kind": "warp", "seconds": 2.0, "clocks": list(warps)})
    return {"load": load, "measurements": measurements}


def facts_of(
    probe: str,
    version: str,
    notes: Mapping[str, str],
    findings: Sequence[Mapping[str, Any]],
    unavailable: str | None,
) -> dict[str, Any]:
    """What is known of a level."""
    report = None
    if unavailable is None:
        report = {"schema": 1, "version": version, "verdict": "ok"}
        report["findings"] = [dict(it) for it in findings]
    said = {"probe": probe, **notes}
    return {"notes": said, "facts": report, "unavailable": unavailable}


def write(folder: Path, runs: Sequence[Mapping[str, Any]]) -> None:
    """Write the manifest of these runs."""
    text = json.dumps(
        {"form": FORM, "metrics": metrics(), "runs": list(runs)}, indent=2, ensure_ascii=False
    )
    (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")

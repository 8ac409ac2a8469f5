"""Results that were measured: ours are the numbers of the table of `eigentime bench`."""

import json
from pathlib import Path

import numpy as np
import pytest

import eigentime_report as report

MEASURED = Path(__file__).parents[4] / "docs" / "results" / "data"


@pytest.mark.skipif(not MEASURED.is_dir(), reason=f"needs {MEASURED}")
def test_numbers_are_those_of_the_manifest() -> None:
    results = report.load(MEASURED)
    titles = {(it.kind, it.title): it for it in results.quantities}
    said = json.loads((MEASURED / "manifest.json").read_text("utf-8"))
    rows = [row for run in said["runs"] for row in run["summary"]["rows"]]
    places = [(row["measurement"], row["level"], row["load"]) for row in rows]
    assert len(set(places)) == len(places) > 100
    for row in rows:
        kind, _, title = row["measurement"].partition(" ")
        cell = results.cell(titles[kind, title], row["level"], row["load"])
        assert cell, row
        assert (cell.count, cell.served) == (row["count"], frozenset(row["served"])), row
        assert cell.facts.get("missed", 0) == row["missed"], row
        # There, events are the intervals themselves.
        interval = row["interval_ns"] if kind == "events" else 0
        ours = {
            "mean_ns": cell.mean + interval,
            "sd_ns": cell.sd,
            "median_ns": cell.median + interval,
            "mad_ns": cell.mad,
            "p99_ns": cell.quantile(0.99) + interval,
            "max_ns": cell.maximum + interval,
        }
        if row["corrected_p99_ns"] is not None:
            all_late = np.quantile(cell.with_slept_through(), 0.99, method="inverted_cdf")
            ours["corrected_p99_ns"] = float(all_late)
        theirs = {name: row[name] for name in ours}
        # To a picosecond: more digits are not written.
        assert ours == pytest.approx(theirs, abs=1e-3, rel=1e-9), row

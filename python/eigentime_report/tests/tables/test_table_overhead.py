"""Table IV, made of results with the paper's means and deviations."""

from pathlib import Path
from typing import Any

import making
import numpy as np
import pytest
from scipy import stats

from eigentime_report import load
from eigentime_report.papers import overhead_table, sources
from eigentime_report.results import Results
from eigentime_report.tables import Marked, Table

PAPER = {it["metric"]: it for it in sources.metrics()}
LEVELS = ("baseline", "namespace", "container")


def exactly(metric: sources.Published):  # type: ignore[no-untyped-def]
    """Records whose mean and deviation are the paper's to the last digit."""

    def values(place: making.Place, lots: np.random.Generator, count: int) -> np.ndarray:
        drawn = lots.standard_normal(count)
        drawn = (drawn - drawn.mean()) / drawn.std(ddof=1)
        return metric["means_ns"][place.level] + metric["sds_ns"][place.level] * drawn

    return values


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    calls = [
        making.Calls(metric["metric"], 0, records=200, calls=1_000_000, exactly=exactly(metric))
        for metric in PAPER.values()
    ]
    path = making.folder(
        tmp_path_factory.mktemp("paper") / "run", calls=calls, levels=LEVELS, blocks=1
    )
    return load(path)


@pytest.fixture(scope="module")
def table(results: Results) -> Table:
    return overhead_table(results)


def bare(cell: Any) -> Any:
    return cell.value if isinstance(cell, Marked) else cell


def test_rows_and_columns_are_the_paper_s(table: Table) -> None:
    assert [column.title for column in table.columns][1:4] == ["Level", "Mean", "Std. dev."]
    assert len(table.rows) == 3 * len(PAPER)
    names = [str(bare(cell)) for cell in table.column("metric")]
    assert list(dict.fromkeys(names)) == list(PAPER)
    assert table.column("level")[:3] == LEVELS


def test_means_deviations_and_overheads_are_as_they_were_made(table: Table) -> None:
    for ours, theirs in (("mean", "paper_mean"), ("sd", "paper_sd")):
        assert table.column(ours) == pytest.approx(table.column(theirs), rel=1e-4)
    pairs = zip(table.column("overhead"), table.column("paper_overhead"), strict=True)
    for overhead, published in pairs:
        assert (overhead is None) == (published is None)
        assert overhead is None or overhead == pytest.approx(published, abs=0.002)
    row = table.rows[
        [str(bare(it)) for it in table.column("metric")].index("vdso_clock_gettime_monotonic") + 1
    ]
    assert row.cells[5] == pytest.approx(6.33, abs=0.01)


def test_the_test_is_another_implementation_s(results: Results, table: Table) -> None:
    for metric in PAPER:
        first = next(row for row in table.rows if bare(row.cells[0]) == metric)
        test, df1, df2, f, p = (bare(cell) for cell in first.cells[6:11])
        groups = [cell.values for cell in results.cells(f"calls/{metric}", "idle")]
        is_welch = "Welch" in str(test)
        theirs = stats.f_oneway(*groups, equal_var=not is_welch)
        assert f == pytest.approx(theirs.statistic, rel=1e-6)
        assert p == pytest.approx(theirs.pvalue, rel=1e-6, abs=1e-300)
        assert df1 == 2
        if not is_welch:
            assert df2 == 597
        elif PAPER[metric]["test"] == "Welch":
            assert df2 == pytest.approx(PAPER[metric]["df2"], abs=1)


def test_verdicts_are_the_paper_s(table: Table) -> None:
    """Sleeps differ nowhere, all other calls do; c marks the same pairs as in the paper."""
    for row in table.rows:
        cells = dict(zip((column.key for column in table.columns), row.cells, strict=True))
        if str(bare(cells["metric"])).endswith("nanosleep"):
            assert cells["difference"] == "N/A" and cells["pair_p"] is None
            assert cells["paper_difference"] is None
            continue
        significance = str(cells["paper_significance"])
        is_marked = isinstance(cells["difference"], Marked)
        assert is_marked == (significance in ("<0.001", "0.001"))
        assert bare(cells["difference"]) == pytest.approx(cells["paper_difference"], abs=0.02)
        assert cells["lower"] < bare(cells["difference"]) < cells["upper"]


def test_welch_is_marked(table: Table) -> None:
    for row in table.rows:
        first = next(it for it in table.rows if it.group == row.group)
        assert isinstance(row.cells[0], Marked) == ("Welch" in str(first.cells[6]))


def test_one_level_has_no_tests(tmp_path: Path) -> None:
    path = making.folder(
        tmp_path / "run", calls=[making.Calls("clock_getres", 130, sd=2)], levels=["baseline"]
    )
    table = overhead_table(load(path))
    assert len(table.rows) == 1
    assert table.column("mean")[0] == pytest.approx(130, abs=2)
    assert table.column("p") == table.column("overhead") == (None,)


def test_four_levels_have_all_pairs(tmp_path: Path) -> None:
    levels = ("baseline", "namespace", "container", "vm")
    calls = [making.Calls("clock_getres", 130, sd=0.5, levels={"vm": 2.0, "container": 1.5})]
    table = overhead_table(load(making.folder(tmp_path / "run", calls=calls, levels=levels)))
    pairs = list(zip(table.column("i"), table.column("j"), strict=True))
    assert len(set(map(frozenset, pairs))) == 6
    assert pairs[0] == ("namespace", "baseline")
    assert ("vm", "baseline") in pairs and ("container", "vm") in pairs
    assert table.column("level")[4:] == (None, None)


def test_values_that_do_not_scatter(tmp_path: Path) -> None:
    calls = [
        making.Calls("clock_getres", 130),
        making.Calls("gettimeofday", 120, levels={"namespace": 1.1}),
    ]
    table = overhead_table(load(making.folder(tmp_path / "run", calls=calls)))
    assert table.column("overhead")[1] == 0
    assert table.column("overhead")[3] == pytest.approx(10)
    assert set(table.column("sd")) == {0.0}


def test_the_title_says_under_which_load(tmp_path: Path) -> None:
    path = making.folder(
        tmp_path / "run", calls=[making.Calls("clock_getres", 130, sd=2)], loads=["idle", "cpu"]
    )
    titles = [overhead_table(load(path), it).title for it in ("idle", "cpu")]
    assert titles == [
        "What levels cost when idle: Table IV of the paper",
        "What levels cost under CPU load: Table IV of the paper",
    ]


def test_an_unknown_load_is_told(results: Results) -> None:
    with pytest.raises(ValueError, match="load io: nothing was measured under it; there is idle"):
        overhead_table(results, "io")


def test_nothing_of_it_measured(tmp_path: Path) -> None:
    path = making.folder(tmp_path / "run", events=[making.Events("timerfd", 50_000, sd=500)])
    assert overhead_table(load(path)).is_empty

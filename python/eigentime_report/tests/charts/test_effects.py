import pytest
from charts.cells import LEVELS, SLEEP, compared

from eigentime_report.charts import forest, overview
from eigentime_report.charts.effects import BEYOND_POINTS


def test_each_level_has_a_panel_with_its_difference_and_interval():
    rows = forest([LEVELS]).rows
    assert rows["panel"].to_list() == ["namespace", "container"]
    found = LEVELS.against_base("namespace")
    assert rows.row(0, named=True) | {
        "at": pytest.approx(found.percent),
        "low": pytest.approx(found.percent_low),
        "high": pytest.approx(found.percent_high),
        "verdict": "differs",
    } == rows.row(0, named=True)
    assert rows["verdict"][1] == "the same, as far as it matters"
    assert rows["said"][0].startswith("vdso_gettimeofday, namespace: +")
    assert rows["said"][0].endswith(", differs")


def test_the_verdict_decides_colour_and_shape():
    point = forest([LEVELS]).spec()["spec"]["layer"][1]["encoding"]
    domain = point["color"]["scale"]["domain"]
    shapes = dict(zip(domain, point["shape"]["scale"]["range"], strict=True))
    assert shapes["differs"] != shapes["the same, as far as it matters"]
    assert point["color"]["legend"]["values"] == domain[:2]


def test_rows_of_several_loads_say_which():
    again = compared({"baseline": (10, 1, 9), "namespace": (20, 1, 9)}, held="cpu")
    names = forest([LEVELS, again]).rows["name"].unique(maintain_order=True)
    assert names.to_list() == ["vdso_gettimeofday, idle", "vdso_gettimeofday, cpu"]


def test_what_was_not_tested_has_no_row():
    chart = forest([compared({"a": (7, 0, 1), "b": (8, 0, 1)})])
    assert chart.is_empty
    assert "No percentage is known of vdso_gettimeofday (b)" in chart.caption
    assert forest([]).is_empty and overview([]).is_empty


@pytest.mark.parametrize(("vm", "is_log"), [(105.0, False), (50.0, True), (9_000.0, True)])
def test_large_differences_are_ratios_on_a_logarithmic_scale(vm, is_log):
    given = compared({"baseline": (100, 0.1, 20), "vm": (vm, 0.1, 20)})
    for chart in forest([given]), overview([given]):
        percent = given.against_base("vm").percent
        at = 1 + percent / 100 if is_log else percent
        assert chart.rows["at"].to_list() == pytest.approx([at])
        interval, _, zero = chart.spec()["spec"]["layer"]
        scale = interval["encoding"]["x"]["scale"]
        assert (scale.get("type") == "log") is is_log
        assert zero["encoding"]["x"]["datum"] == int(is_log)
        assert ("half as much" in chart.caption) is is_log


def test_intervals_beyond_what_ratios_can_be_are_cut_off():
    wild = compared({"baseline": (100, 40, 5), "vm": (300, 400, 5)})
    rows = forest([wild]).rows
    at = max(rows["at"][0], 1.0)
    assert rows["low"][0] > 0 and rows["high"][0] <= at * BEYOND_POINTS


def test_the_opening_picture_has_a_row_for_each_metric():
    sleeps = compared({"baseline": (10, 1, 9), "namespace": (20, 1, 9)}, SLEEP)
    chart = overview([LEVELS, sleeps], ["baseline", "namespace", "container"])
    assert chart.title == "What each level costs against baseline"
    assert chart.rows["name"].unique(maintain_order=True).to_list() == [
        "vdso_gettimeofday (overhead)",
        "nanosleep 1 ms (latency)",
    ]
    assert chart.rows["level"].to_list() == ["namespace", "container", "namespace"]
    for word in ("overhead", "latency", "randomized", "95 %"):
        assert word in chart.caption
    interval, point, _ = chart.spec()["spec"]["layer"]
    assert "x2" in interval["encoding"] and point["encoding"]["yOffset"]["field"] == "level"

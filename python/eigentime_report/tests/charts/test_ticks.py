import pytest
from eigentime_report.charts.description import Axis
from eigentime_report.charts.ticks import log_ticks, unit_of


def written(low, high, room, unit="time"):
    axis = Axis("", unit, is_log=True, range=(low, high))
    return [text for _, text in log_ticks(axis, room)]


def test_marks_are_as_close_as_there_is_room():
    assert written(9e-6, 2.1e-3, 3) == ["10 µs", "100 µs", "1 ms"]
    assert written(9e-6, 2.1e-3, 6) == ["10 µs", "30 µs", "100 µs", "300 µs", "1 ms"]
    assert written(9e-6, 2.1e-4, 5) == ["10 µs", "20 µs", "50 µs", "100 µs", "200 µs"]
    assert written(1.9e-8, 9.1e-8, 8)[:3] == ["20 ns", "30 ns", "40 ns"]


def test_over_many_decades_some_have_no_mark():
    assert written(0.9e-9, 2.0, 5) == ["1 ns", "100 ns", "10 µs", "1 ms", "100 ms"]


def test_ratios_have_a_mark_at_1_and_even_ones_where_there_is_no_decade():
    assert written(0.7, 1.6, 5, "number") == ["0.8", "1", "1.2", "1.4", "1.6"]
    assert written(0.05, 2e4, 3, "number") == ["1", "100", "10,000"]
    assert written(1.15e-6, 1.9e-6, 4) == ["1.2 µs", "1.4 µs", "1.6 µs", "1.8 µs"]


def test_shares_have_no_more_digits_than_they_need():
    found = written(0.0004, 160, 7, "percent")
    assert found == ["0.001 %", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"]


def test_marks_stand_where_they_say():
    axis = Axis("", "time", is_log=True, range=(1e-7, 1e-3))
    for place, text in log_ticks(axis, 20):
        number, name = text.split()
        assert float(number) * {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3}[name] == (
            pytest.approx(place)
        )


def test_words_of_an_axis_are_its_marks():
    axis = Axis("", range=(0, 2), ticks=((0.0, "a"), (1.0, "b")))
    assert log_ticks(axis, 1) == axis.ticks
    assert log_ticks(Axis("", "time", range=(0, 1)), 5) == ()


@pytest.mark.parametrize(
    ("ends", "unit"),
    [
        ((-3e-7, 9e-7), (1e9, " ns")),
        ((0.0, 4.2e-6), (1e6, " µs")),
        ((-0.2, 0.1), (1e3, " ms")),
        ((0.0, 0.0), (1e9, " ns")),
    ],
)
def test_a_linear_axis_has_one_unit(ends, unit):
    assert unit_of(Axis("", "time", range=ends)) == unit

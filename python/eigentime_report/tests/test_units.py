"""Numbers as they are written."""

import math

import pytest

from eigentime_report import units


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (19.83, "19.8 ns"),
        (0.4321, "0.432 ns"),
        (-3.456, "−3.46 ns"),
        (0, "0 ns"),
        (999.96, "1.00 µs"),
        (1_020_000, "1.02 ms"),
        (101_570_000, "102 ms"),
        (2.5e9, "2.50 s"),
        (7_200e9, "7,200 s"),
    ],
)
def test_a_duration_is_in_the_unit_that_fits(ns: float, text: str) -> None:
    assert units.duration(ns) == text


def test_a_duration_may_be_asked_for_in_a_unit_and_with_more_figures() -> None:
    assert units.duration(61_996, units.NANOSECONDS) == "61,996 ns"
    assert units.duration(101_570_000, figures=5) == "101.57 ms"


@pytest.mark.parametrize(
    ("value", "figures", "text"),
    [
        (9.999, 3, "10.0"),
        (0.012345, 3, "0.0123"),
        (1234.5, 3, "1,234"),
        (1.5e-7, 2, "< 0.0001"),
        (-1.5e-7, 2, "> −0.0001"),
        (-0.0, 3, "0"),
        (3, 1, "3"),
    ],
)
def test_a_number_has_the_figures_that_count(value: float, figures: int, text: str) -> None:
    assert units.number(value, figures) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_not_shown(value: float) -> None:
    for write in (units.number, units.duration, units.percent, units.p_value, units.times):
        with pytest.raises(ValueError, match="no number to show"):
            write(value)


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (0.0314, "+3.1 %"),
        (-0.0042, "−0.42 %"),
        (0.31, "+31 %"),
        (3.1, "+310 %"),
        (0.00001, "0.00 %"),
        (-0.00001, "0.00 %"),
        (0.0, "0.0 %"),
    ],
)
def test_a_change_in_percent_has_its_sign(part: float, text: str) -> None:
    assert units.percent(part) == text


def test_other_numbers() -> None:
    assert units.percent(0.95, sign=False) == "95 %"
    assert units.times(4.12) == "4.1 times"
    assert units.count(1_234_567) == "1,234,567"
    assert units.p_value(0.0004) == "< 0.001"
    assert units.p_value(0.0123) == "0.012"
    assert units.p_value(0.5) == "0.50"


def test_a_row_has_the_unit_of_the_least() -> None:
    assert units.unit_for([61_996, 82]) is units.NANOSECONDS
    assert units.unit_for([61_996, 131_252, None, 0]) is units.MICROSECONDS
    assert units.unit_for([1.1e8, -1e8]) is units.MILLISECONDS
    assert units.unit_for([]) is units.NANOSECONDS


@pytest.mark.parametrize(
    ("ns", "written", "typed"),
    [
        (1, "1 ns", "1ns"),
        (70_500, "70.5 µs", "70.5us"),
        (1_000_000, "1 ms", "1ms"),
        (2e9, "2 s", "2s"),
        (123_456_789, "123.456789 ms", "123.456789ms"),
    ],
)
def test_what_was_asked_for_is_in_full(ns: float, written: str, typed: str) -> None:
    assert (units.span(ns), units.typed_span(ns)) == (written, typed)
    assert units.nanoseconds(written) == units.nanoseconds(typed) == pytest.approx(ns)


def test_lengths_are_read_as_people_type_them() -> None:
    assert units.nanoseconds(" -1.5 MS ") == -1.5e6
    assert units.nanoseconds("2μs") == 2_000
    for text in ("", "5", "us", "5 %", "1ms 2us", "nan ns"):
        with pytest.raises(ValueError, match="no length of time"):
            units.nanoseconds(text)


def test_large_percentages_have_separators_and_limits_are_as_given() -> None:
    assert units.percent(37) == "+3,700 %"
    assert [units.margin(it) for it in (0.01, 0.005, 0.1)] == ["1 %", "0.5 %", "10 %"]

"""Tables as data."""

import pytest

from eigentime_report.statistics import Interval
from eigentime_report.tables import Between, Column, Marked, Row, Table
from eigentime_report.tables.table import mark, text

COLUMNS = (Column("what", "What"), Column("cost", "Cost", "ns"), Column("n", "n", "count"))


def table(*rows: Row) -> Table:
    return Table("costs", "What things cost", COLUMNS, rows)


def test_rows_of_a_group_stand_together() -> None:
    a, b, c, d = (Row((name, 1.0, 2), group) for name, group in zip("abcd", ("x", "x", None, None)))
    assert list(table(a, b, c, d).groups()) == [("x", (a, b)), (None, (c,)), (None, (d,))]


def test_a_column_by_its_key() -> None:
    found = table(Row(("a", 1.5, 2)), Row(("b", None, 3)))
    assert found.column("cost") == (1.5, None)
    with pytest.raises(KeyError, match="costs has no column price; it has what, cost, n"):
        found.column("price")


def test_a_row_that_is_too_short_is_told() -> None:
    with pytest.raises(ValueError, match="table costs: a row has 2 cells, and there are 3 columns"):
        table(Row(("a", 1.0)))


@pytest.mark.parametrize(
    ("cell", "unit", "expected"),
    [
        (None, "ns", ""),
        (19.83, "ns", "19.8 ns"),
        (101_570_000.0, "ns", "102 ms"),
        (3.06, "+%", "+3.1 %"),
        (-0.4, "+%", "−0.40 %"),
        (40.0, "%", "40 %"),
        (0.0001, "p", "< 0.001"),
        (12_345, "count", "12,345"),
        ("words", "ns", "words"),
        (Marked(2.0, "a"), "ns", "2.00 ns"),
        (Between(1.0, 2.0), "ns", "1.00 ns to 2.00 ns"),
        (Between(None, 2.0), "ns", "up to 2.00 ns"),
        (Between(1.0, None), "ns", "from 1.00 ns"),
    ],
)
def test_cells_are_written_with_their_units(cell: object, unit: str, expected: str) -> None:
    assert text(cell, Column("it", "It", unit)) == expected  # type: ignore[arg-type]


def test_a_number_that_is_none_is_never_written() -> None:
    with pytest.raises(ValueError, match="nan is no number to show"):
        text(float("nan"), Column("it", "It", "ns"))


def test_figures_are_the_column_s() -> None:
    assert text(146.85, Column("it", "It", "ns", figures=5)) == "146.85 ns"


def test_marks() -> None:
    assert (mark(Marked(1.0, "c")), mark(1.0)) == ("c", "")


def test_an_interval_without_ends_is_no_interval() -> None:
    assert Between.of(None) is None
    assert Between.of(Interval(1.0, None, None)) is None
    assert Between.of(Interval(1.0, None, 1.0)) == Between(None, 1.0)


def test_a_notebook_shows_a_table_and_not_its_parts() -> None:
    shown = table(Row(("<a>", 1.0, 2)))
    html = shown._repr_html_()
    assert "<table" in html and "&lt;a&gt;" in html and "What things cost" in html
    assert repr(shown) == "<Table costs: What things cost; 1 row of what, cost, n>"

"""How a table fits on paper: how wide its columns are, upright or not, in how many parts.

A width is in ems, of which a digit of TeX's fonts has half of one in every size. The paper is the
narrower of A4 and letter as the class `article` sets it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eigentime_report.tables.table import Column, Table
from eigentime_report.tables.text import mark, text

# Of a character, on average; what stands between two columns, in points.
CHARACTER_EM = 0.56
GAP_PT = 6.0
# Names with more characters go over several lines; other words over two, or more of this length.
NAME, PROSE = 18, 44


@dataclass(frozen=True)
class Form:
    """A size of letters, upright or across the paper."""

    size: str
    em_pt: float
    line_pt: float
    is_landscape: bool


# The first one in which all columns have room is taken; the last one is for what fits in none.
FORMS = (
    Form("small", 9.25, 345, False),
    Form("footnotesize", 8.5, 345, False),
    Form("footnotesize", 8.5, 548, True),
    Form("scriptsize", 7.97, 548, True),
)


@dataclass(frozen=True)
class Fit:
    """The form of a table, and which of its columns each part has, by their places."""

    form: Form
    widths_em: tuple[float, ...]
    parts: tuple[tuple[int, ...], ...]


def fit(table: Table) -> Fit:
    """All columns in one part if they fit in any form, else as many parts as it takes."""
    widths = tuple(_widths_em(table))
    everything = tuple(range(len(widths)))
    for form in FORMS:
        if _line_pt(widths, everything, form) <= form.line_pt:
            return Fit(form, widths, (everything,))
    form = FORMS[-1]
    return Fit(form, widths, tuple(_parts(table, widths, form)))


def _parts(
    table: Table, widths: Sequence[float], form: Form
) -> Iterator[tuple[int, ...]]:
    """Each begins with the names of the rows, and has columns of one band together if it can."""
    names = tuple(_names(table))
    part = names
    for group in _together(table, len(names)):
        if _line_pt(widths, part + group, form) > form.line_pt and part != names:
            yield part
            part = names
        for place in group:
            if _line_pt(widths, (*part, place), form) > form.line_pt and part != names:
                yield part
                part = names
            part = (*part, place)
    yield part


def _names(table: Table) -> Iterator[int]:
    """The columns of words before the first one of numbers."""
    for place, column in enumerate(table.columns[:-1]):
        if column.align == "right":
            return
        yield place


def _together(table: Table, after: int) -> Iterator[tuple[int, ...]]:
    """The columns behind the names: those of a band, or a single one."""
    place = 0
    for band, columns in table.bands():
        places = tuple(range(max(place, after), place + len(columns)))
        yield from (places,) if band else ((it,) for it in places)
        place += len(columns)


def _line_pt(widths: Sequence[float], places: Sequence[int], form: Form) -> float:
    return sum(widths[it] * form.em_pt for it in places) + GAP_PT * (len(places) - 1)


def _widths_em(table: Table) -> Iterator[float]:
    names = set(_names(table))
    for place, column in enumerate(table.columns):
        cells = [row.cells[place] for row in table.rows]
        longest = max(
            (len(text(it, column)) + len(mark(it)) for it in cells), default=0
        )
        if place in names:
            longest = min(longest, NAME)
        elif column.align == "left":
            longest = min(longest, max(longest // 2 + 1, NAME), PROSE)
        yield CHARACTER_EM * max(_longest_word(column), longest, 1)


def _longest_word(column: Column) -> int:
    return max(map(len, column.title.split()), default=0)

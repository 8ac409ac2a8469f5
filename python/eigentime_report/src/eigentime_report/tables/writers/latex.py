r"""A table of LaTeX with the rules of `booktabs`.

It needs the packages of `PACKAGES` and an engine that reads UTF-8, as all do since 2018. A table
that is too wide for paper is set across it, and in several parts if that does not do.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from eigentime_report.tables.table import Cell, Column, Table
from eigentime_report.tables.text import mark, text
from eigentime_report.tables.writers.latex_fit import GAP_PT, Fit, fit

PACKAGES = r"\usepackage{array,booktabs,longtable,pdflscape,textcomp}"

ESCAPES = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "µ": r"\textmu{}",
        "±": r"\textpm{}",
        "×": r"\texttimes{}",
        "−": r"\textminus{}",
        "≈": r"$\approx$",
        "≤": r"$\le$",
        "≥": r"$\ge$",
        "²": r"\texttwosuperior{}",
        "χ": r"$\chi$",
        "ω": r"$\omega$",
        "δ": r"$\delta$",
        "ε": r"$\varepsilon$",
        "–": "--",
        "“": "``",
        "”": "''",
        "’": "'",
        "\u00a0": "~",
        "\u202f": r"\,",
        "\n": " ",
    }
)


# Where a long name may go on in the next line.
_BREAKS = re.compile(r"(/|\\_|=)(?=.)")
_SIDES = {"left": r"\raggedright", "right": r"\raggedleft"}


def write_latex(table: Table) -> str:
    """A `longtable`, which goes over as many pages as it must, with the notes below it."""
    return "\n".join(_lines(table)) + "\n"


def _lines(table: Table) -> Iterator[str]:
    found = fit(table)
    yield f"% {PACKAGES}"
    if found.form.is_landscape:
        yield r"\begin{landscape}"
    yield rf"\begingroup\{found.form.size}\setlength{{\tabcolsep}}{{{GAP_PT / 2:g}pt}}"
    for number in range(len(found.parts)):
        yield from _part(table, found, number)
    for note in table.notes:
        yield rf"\par\noindent\footnotesize\raggedright {_breakable(note)}"
    yield r"\par\endgroup"
    if found.form.is_landscape:
        yield r"\end{landscape}"


def _part(table: Table, found: Fit, number: int) -> Iterator[str]:
    places = found.parts[number]
    if number:
        # All parts are one table.
        yield r"\addtocounter{table}{-1}"
    columns = "".join(
        rf">{{{_SIDES[table.columns[it].align]}\arraybackslash}}p{{{found.widths_em[it]:.4g}em}}"
        for it in places
    )
    yield rf"\begin{{longtable}}{{@{{}}{columns}@{{}}}}"
    yield _caption(table, number, len(found.parts))
    yield r"\toprule"
    yield from _head(table, places)
    yield r"\midrule"
    yield r"\endfirsthead"
    yield r"\toprule"
    yield from _head(table, places)
    yield r"\midrule"
    yield r"\endhead"
    yield r"\bottomrule"
    yield r"\endfoot"
    if table.is_empty:
        yield rf"\multicolumn{{{len(places)}}}{{@{{}}l@{{}}}}{{Nothing was measured.}} \\"
    last = None
    for at, (group, rows) in enumerate(table.groups()):
        if at and (group or last):
            yield r"\addlinespace"
        last = group
        for place, row in enumerate(rows):
            cells = [
                _cell(row.cells[it], table.columns[it])
                if it or not (group and place)
                else ""
                for it in places
            ]
            # Of some rows all that there is stands in another part.
            if any(cells):
                yield _line(cells)
    yield r"\end{longtable}"


def _caption(table: Table, number: int, parts: int) -> str:
    title = _escape(table.title)
    if number:
        return rf"\caption[]{{{title}, part {number + 1} of {parts}.}}\\"
    part = f", part 1 of {parts}" if parts > 1 else ""
    caption = f" {_escape(table.caption)}" if table.caption else ""
    return (
        rf"\caption[{{{title}}}]{{{title}{part}.{caption}}}\label{{tab:{table.key}}}\\"
    )


def _head(table: Table, places: Sequence[int]) -> Iterator[str]:
    bands = list(_bands(table, places))
    if any(band for band, _, _ in bands):
        yield _line(
            rf"\multicolumn{{{end - first + 1}}}{{c}}{{{_escape(band)}}}"
            if band
            else " & ".join([""] * (end - first + 1))
            for band, first, end in bands
        )
        yield "".join(
            rf"\cmidrule(lr){{{first}-{end}}}" for band, first, end in bands if band
        )
    yield _line(_escape(table.columns[it].title) for it in places)


def _bands(table: Table, places: Sequence[int]) -> Iterator[tuple[str, int, int]]:
    """The words above columns, the first and the last of these, counted from 1."""
    at = 1
    for band, group in groupby(table.columns[it].band for it in places):
        end = at + len(list(group)) - 1
        yield band, at, end
        at = end + 1


def _cell(cell: Cell, column: Column) -> str:
    letter = mark(cell)
    return _breakable(text(cell, column)) + (
        rf"\textsuperscript{{{_escape(letter)}}}" if letter else ""
    )


def _breakable(words: str) -> str:
    return _BREAKS.sub(r"\1\\allowbreak{}", _escape(words))


def _line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _escape(words: str) -> str:
    return words.translate(ESCAPES)

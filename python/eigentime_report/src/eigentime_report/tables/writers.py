"""A table as HTML, CSV, Markdown or LaTeX: one function for each format."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby
from typing import Literal, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined

from eigentime_report.tables.table import (
    SUFFIXES,
    Between,
    Cell,
    Column,
    Table,
    mark,
    plain,
    text,
    text_data,
)

Form: TypeAlias = Literal["html", "csv", "latex", "markdown"]
# Some columns of a table, by index.
Places: TypeAlias = tuple[int, ...]

NOTHING = "Nothing was measured."

# Characters that begin a formula in a spreadsheet (OWASP, "CSV Injection"); after an apostrophe,
# they are text.
FORMULA = tuple("=+-@＝＋－＠")

# The special characters of Markdown, and of HTML in it.
MARKDOWN = str.maketrans(
    {character: f"\\{character}" for character in "\\`*_[]<>|#~$"} | {"\n": " "}
)

PACKAGES = r"\usepackage{array,booktabs,longtable,pdflscape,textcomp}"
LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | text_data("eigentime_report.tables", "tables")["latex"]
)
# Where a long name may be broken.
BREAKS = re.compile(r"(/|\\_|=)(?=.)")
# For LaTeX: font size, its em and the line width in points (of the narrower of A4 and letter in the
# class `article`), and whether the page is in landscape format. The first one that has room for all
# columns is used; a table that fits in none is split, in the last one.
SIZES = (
    ("small", 9.25, 345, False),
    ("footnotesize", 8.5, 345, False),
    ("footnotesize", 8.5, 548, True),
    ("scriptsize", 7.97, 548, True),
)
# The average width of a character, in ems; the space between two columns, in points; and the
# maximum number of characters per line of a cell: of names in front, and of text after numbers.
CHARACTER_EM, GAP_PT, NAME, PROSE = 0.56, 6.0, 18, 44


def write(table: Table, form: Form) -> str:
    """The table in one of the formats, with its title, caption and notes; CSV has the raw
    numbers."""
    if form not in WRITERS:
        raise ValueError(f"tables are written as {', '.join(WRITERS)}, not as {form}")
    return WRITERS[form](table)


def write_html(table: Table) -> str:
    """A `figure` with the table and its notes; its ID is the table's key."""
    template = templates("eigentime_report.tables").get_template("table.html")
    return template.render(table=table, text=text, mark=mark, nothing=NOTHING)


@cache
def templates(package: str) -> Environment:
    """The HTML templates of a package."""
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def write_csv(table: Table) -> str:
    """A line of names, and one for each row: no title, no notes, no rounding."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(name for column in table.columns for name in _names(column))
    for row in table.rows:
        pairs = zip(row.cells, table.columns, strict=True)
        writer.writerow(it for cell, column in pairs for it in _values(cell, column))
    return out.getvalue()


def _names(column: Column) -> list[str]:
    suffix = SUFFIXES.get(column.unit, "")
    ends = ("_low", "_high") if column.is_interval else ("",)
    return [f"{column.key}{end}{suffix}" for end in ends]


def _values(cell: Cell, column: Column) -> list[str]:
    value = plain(cell)
    if isinstance(value, Between):
        return [_value(value.low), _value(value.high)]
    return [_value(value)] * (2 if column.is_interval else 1)


def _value(value: float | str | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        # A row must be one line, whatever its text.
        words = re.sub(r"[\t\r\n]", " ", value)
        return f"'{words}" if words.lstrip().startswith(FORMULA) else words
    # The shortest text that is parsed as the same number.
    return repr(value)


def write_markdown(table: Table) -> str:
    """The title in bold, a table in GitHub's Markdown, and the notes as a list."""
    lines = [f"**{escape(table.title)}**", ""]
    if table.caption:
        lines += [escape(table.caption), ""]
    if table.is_empty:
        lines.append(NOTHING)
    else:
        titles = (f"{it.band}: {it.title}" if it.band else it.title for it in table.columns)
        sides = {"right": "---:", "left": ":---"}
        lines += [_bars(map(escape, titles)), _bars(sides[it.align] for it in table.columns)]
        lines += [_bars(map(_markdown, row.cells, table.columns)) for row in table.rows]
    notes = [f"- {escape(note)}" for note in table.notes]
    return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n"


def _markdown(cell: Cell, column: Column) -> str:
    letter = f" <sup>{escape(mark(cell))}</sup>" if mark(cell) else ""
    return escape(text(cell, column)) + letter


def _bars(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escape(words: str) -> str:
    """Text as it should be read, with Markdown's special characters escaped."""
    return words.translate(MARKDOWN)


def write_latex(table: Table) -> str:
    """A `longtable` with the rules of `booktabs`, which spans as many pages as necessary.

    It needs the packages of `PACKAGES` and an engine that reads UTF-8, as all do since 2018. A
    table that is too wide is set in landscape format, and in several parts if necessary.
    """
    widths = _widths(table)
    parts, (size, _, _, is_landscape) = _fitted(table, widths)
    lines = [f"% {PACKAGES}", *([r"\begin{landscape}"] if is_landscape else [])]
    lines.append(rf"\begingroup\{size}\setlength{{\tabcolsep}}{{{GAP_PT / 2:g}pt}}")
    for number, places in enumerate(parts, 1):
        # All parts are one table.
        lines += [r"\addtocounter{table}{-1}"] if number > 1 else []
        lines += _part(table, places, widths, number, len(parts))
    for note in table.notes:
        lines.append(rf"\par\noindent\footnotesize\raggedright {_breakable(note)}")
    lines += [r"\par\endgroup", *([r"\end{landscape}"] if is_landscape else [])]
    return "\n".join(lines) + "\n"


def _part(table: Table, places: Places, widths: list[float], number: int, of: int) -> Iterator[str]:
    columns = [table.columns[it] for it in places]
    sides = "".join(
        rf">{{\ragged{'right' if it.align == 'left' else 'left'}\arraybackslash}}"
        rf"p{{{widths[place]:.4g}em}}"
        for it, place in zip(columns, places, strict=True)
    )
    yield rf"\begin{{longtable}}{{@{{}}{sides}@{{}}}}"
    title, part = _tex(table.title), f", part {number} of {of}" if of > 1 else ""
    caption = f" {_tex(table.caption)}" if table.caption else ""
    if number > 1:
        yield rf"\caption[]{{{title}{part}.}}\\"
    else:
        yield rf"\caption[{{{title}}}]{{{title}{part}.{caption}}}\label{{tab:{table.key}}}\\"
    for end in ("firsthead", "head"):
        yield from (r"\toprule", *_head(columns), r"\midrule", rf"\end{end}")
    yield r"\bottomrule"
    yield r"\endfoot"
    if table.is_empty:
        yield rf"\multicolumn{{{len(places)}}}{{@{{}}l@{{}}}}{{{NOTHING}}} \\"
    last = None
    for at, (group, rows) in enumerate(table.groups()):
        if at and (group or last):
            yield r"\addlinespace"
        last = group
        for place, row in enumerate(rows):
            cells = [_latex(row.cells[it], table.columns[it]) for it in places]
            if group and place and 0 in places:
                cells[places.index(0)] = ""
            # Some rows have all their contents in another part.
            if any(cells):
                yield _ampersands(cells)
    yield r"\end{longtable}"


def _head(columns: list[Column]) -> Iterator[str]:
    if any(it.band for it in columns):
        cells, rules, at = [], "", 1
        for band, group in groupby(columns, key=lambda it: it.band):
            end = at + len(list(group)) - 1
            if band:
                cells.append(rf"\multicolumn{{{end - at + 1}}}{{c}}{{{_tex(band)}}}")
                rules += rf"\cmidrule(lr){{{at}-{end}}}"
            else:
                cells += [""] * (end - at + 1)
            at = end + 1
        yield _ampersands(cells)
        yield rules
    yield _ampersands(_tex(it.title) for it in columns)


def _names_in_front(table: Table) -> Places:
    """The columns of text before the first one of numbers."""
    first = next((at for at, it in enumerate(table.columns) if it.align == "right"), None)
    return tuple(range(len(table.columns) - 1 if first is None else first))


def _widths(table: Table) -> list[float]:
    """The width of each column, in ems; long text is wrapped."""
    names = len(_names_in_front(table))
    widths = []
    for place, column in enumerate(table.columns):
        cells = (row.cells[place] for row in table.rows)
        longest = max((len(text(it, column) + mark(it)) for it in cells), default=0)
        if place < names:
            longest = min(longest, NAME)
        elif column.align == "left":
            longest = min(longest, max(longest // 2 + 1, NAME), PROSE)
        word = max(map(len, column.title.split()), default=0)
        widths.append(CHARACTER_EM * max(word, longest, 1))
    return widths


def _fitted(table: Table, widths: list[float]) -> tuple[list[Places], tuple[str, float, int, bool]]:
    """The columns of each part and the size: one part, if all columns fit in any size."""
    everything = tuple(range(len(widths)))
    for size in SIZES:
        _, em_pt, line_pt, _ = size

        def fits(places: Places, em_pt: float = em_pt, line_pt: int = line_pt) -> bool:
            gaps = GAP_PT * (len(places) - 1)
            return sum(widths[it] * em_pt for it in places) + gaps <= line_pt

        if fits(everything):
            return [everything], size
    # Each part begins with the names of the rows, and keeps columns with a common heading together
    # if possible.
    names = _names_in_front(table)
    parts = [names]
    rest = everything[len(names) :]
    for band, group in groupby(rest, key=lambda it: table.columns[it].band or it):
        places = tuple(group)
        whole = isinstance(band, str) and fits(names + places)
        for some in [places] if whole else [(it,) for it in places]:
            if not fits(parts[-1] + some) and parts[-1] != names:
                parts.append(names)
            parts[-1] += some
    return parts, SIZES[-1]


def _latex(cell: Cell, column: Column) -> str:
    letter = rf"\textsuperscript{{{_tex(mark(cell))}}}" if mark(cell) else ""
    return _breakable(text(cell, column)) + letter


def _breakable(words: str) -> str:
    return BREAKS.sub(r"\1\\allowbreak{}", _tex(words))


def _ampersands(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _tex(words: str) -> str:
    return words.translate(LATEX)


WRITERS: Mapping[Form, Callable[[Table], str]] = {
    "html": write_html,
    "csv": write_csv,
    "latex": write_latex,
    "markdown": write_markdown,
}
# By file suffix.
FORMS: Mapping[str, Form] = dict(zip((".html", ".csv", ".tex", ".md"), WRITERS, strict=True))

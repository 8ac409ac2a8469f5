"""A report as files, by suffix, and as text for a terminal."""

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from eigentime_report.basics import Refused
from eigentime_report.charts.chart import replacing
from eigentime_report.comparison import CONDITIONS, Judgement
from eigentime_report.page import Page, Sentence, render
from eigentime_report.report import Tell, matching, unheard
from eigentime_report.tables import Between, Form, Table, write
from eigentime_report.tables.table import plain
from eigentime_report.tables.writers import FORMS, escape

# The version of the JSON format.
JSON_FORM = 1

# GitHub's limit for issues and comments, in characters.
ISSUE = 65_536

# The maximum width of text, even on a wider terminal.
WIDEST = 100
NO_BREAK = "\u00a0"


class OutputError(Refused):
    """Something that cannot be written, with the reason and the remedy."""


def suffix_of(path: Path) -> str:
    """A file's suffix in lower case."""
    return path.suffix.lower()


def only(page: Page, patterns: Sequence[str]) -> Page:
    """A shortened page: its first sentences and notes, and the tables whose names match."""
    known = [table.key for table in page.tables()]
    for pattern in patterns:
        if not matching(page.tables(), [pattern]):
            near = get_close_matches(pattern, known)
            offered = f"near it: {', '.join(near)}; " if near else ""
            raise OutputError(
                f"no table is called '{pattern}'\nhelp: {offered}there are {', '.join(known)}"
            )

    chosen = (replace(it, blocks=tuple(matching(it.tables(), patterns))) for it in page.sections)
    sections = tuple(it for it in chosen if it.blocks)
    return replace(page, picture=None, more_sentences=(), sections=sections)


def check(path: Path) -> None:
    """Rejects what cannot be written before anything is computed for it."""
    if suffix_of(path) not in SUFFIXES:
        raise OutputError(
            f"{path}: a report is written as {', '.join(SUFFIXES)}, which the suffix says\n"
            "help: -o report.html is a page, -o tables.csv a folder of CSV files"
        )
    is_folder = suffix_of(path) == FOLDER_SUFFIX
    if path.exists() and path.is_dir() != is_folder:
        kind = "file" if is_folder else "folder"
        raise OutputError(f"{path}: a {kind} of that name is there already")
    check_folder(path if is_folder else path.parent)


def check_folder(path: Path) -> None:
    """Creates a folder, or reports why it cannot be written to."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path}: it cannot be made: {error.strerror}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: this user may not write there")


def warn_of_length(path: Path) -> None:
    """Warns if a Markdown file is too long for its likely purpose."""
    if suffix_of(path) != ".md":
        return
    length = len(path.read_text(encoding="utf-8"))
    if length > ISSUE:
        print(
            f"report: {path} has {length:,} characters, and an issue on GitHub takes "
            f"{ISSUE:,}: --only TABLE,... chooses tables",
            file=sys.stderr,
        )


def write_report(path: Path, page: Page, judgements: Sequence[Judgement]) -> None:
    """Writes a report to a file, or to a folder of CSV files, depending on the suffix."""
    suffix = suffix_of(path)
    if suffix == FOLDER_SUFFIX:
        write_tables(path, page, (FOLDER_SUFFIX,))
    else:
        _write(path, TEXTS[suffix](page, judgements))


def write_tables(folder: Path, page: Page, suffixes: Sequence[str] = tuple(FORMS)) -> None:
    """Writes each table to files named after its key."""
    for table in page.tables():
        for suffix in suffixes:
            _write(folder / f"{table.key}{suffix}", write(table, FORMS[suffix]))


def write_figures(folder: Path, page: Page, suffixes: Sequence[str], tell: Tell = unheard) -> None:
    """Writes each chart as images named after its key."""
    charts = list(page.charts())
    for done, chart in enumerate(charts, start=1):
        tell(f"drawing {done} of {len(charts)} images")
        for suffix in suffixes:
            path = folder / f"{chart.key}{suffix}"
            with _writing(path):
                chart.save(path)


def _write(path: Path, text: str) -> None:
    """Writes a file atomically; invalid characters, as in a title, are escaped."""
    with _writing(path), replacing(path) as new:
        new.write_text(text, encoding="utf-8", errors="backslashreplace")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Converts errors of writing a file to ours."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{path}: it cannot be written: {error.strerror or error}\n"
            "help: name another place, or make room there"
        ) from error


def markdown(page: Page) -> str:
    """The conclusions as a list, and all tables."""
    lines = [f"# {escape(page.title)}\n"]
    if page.subtitle:
        lines.append(f"{escape(page.subtitle)}\n")
    for title, texts in (
        ("What to conclude", [it.text for it in page.sentences]),
        ("What to know first", page.notes),
        ("What matters less", [it.text for it in page.more_sentences]),
    ):
        if texts:
            lines += [f"## {title}\n", *(f"- {_prose(text)}" for text in texts), ""]
    for section in page.sections:
        lines.append(f"## {escape(section.title)}\n")
        lines += [write(table, "markdown") for table in section.tables()]
    return "\n".join(lines)


def _prose(text: str) -> str:
    """A sentence in which code is between backticks; the rest is escaped."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    # Within words, `_` is literal, so that names can be searched for.
    return "`".join(
        part if place % 2 else escape(part).replace("\\_", "_") for place, part in enumerate(parts)
    )


def tables(page: Page, form: Form = "markdown") -> str:
    r"""The tables alone, for reading, or for a document that includes them with `\input`."""
    return "\n".join(write(table, form) for table in page.tables())


def as_json(page: Page, judgements: Sequence[Judgement]) -> str:
    """Everything but the charts, for programs."""
    found = {
        "form": JSON_FORM,
        "title": page.title,
        "subtitle": page.subtitle,
        "conclusions": _sentences(page.sentences),
        "minor": _sentences(page.more_sentences),
        "notes": list(page.notes),
        "conditions": [
            {
                "condition": it.condition.text,
                "outcome": it.outcome.value,
                "quantity": it.quantity.name if it.quantity else None,
                "level": it.level,
                "load": it.load,
                "because": it.text,
            }
            for it in judgements
        ],
        "tables": {table.key: _table(table) for table in page.tables()},
    }
    return json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _sentences(sentences: Sequence[Sentence]) -> list[dict[str, str]]:
    return [{"text": it.text, "table": it.table_key} for it in sentences]


def _table(table: Table) -> dict[str, Any]:
    keys = [column.key for column in table.columns]
    return {
        "title": table.title,
        "units": {column.key: column.unit for column in table.columns if column.unit},
        "rows": [dict(zip(keys, map(_plain, row.cells), strict=True)) for row in table.rows],
        "notes": list(table.notes),
    }


def _plain(cell: Any) -> Any:
    value: Any = plain(cell)
    if isinstance(value, Between):
        return [value.low, value.high]
    # The json module does not accept numpy's numbers.
    return value.item() if hasattr(value, "item") else value


TEXTS: Mapping[str, Callable[[Page, Sequence[Judgement]], str]] = {
    ".html": lambda page, _: render(page),
    ".md": lambda page, _: markdown(page),
    ".tex": lambda page, _: tables(page, "latex"),
    ".json": as_json,
}

# This is a folder, because tables have different columns.
FOLDER_SUFFIX = ".csv"
SUFFIXES = (*TEXTS, FOLDER_SUFFIX)


def on_terminal(page: Page) -> str:
    """The conclusions, in lines that fit, and a hint at what a page would add."""
    lines = [page.title, *_wrapped(page.subtitle), ""]
    for sentence in page.sentences:
        # Outcomes are printed separately, like errors.
        if sentence.table_key != CONDITIONS:
            lines += _wrapped(sentence.text, "- ", "  ")
    more = [
        f"{count} {what}{'s' if count > 1 else ''}"
        for count, what in ((len(page.more_sentences), "more sentence"), (len(page.notes), "note"))
        if count
    ]
    rest = f"{' and '.join(more)}, all tables and plots" if more else "All tables and plots"
    lines += ["", *_wrapped(f"{rest} are on the page: -o report.html")]
    return "\n".join(lines)


def _wrapped(text: str, first: str = "", others: str = "") -> list[str]:
    """Wraps lines without separating numbers from units or breaking words."""
    lines = textwrap.wrap(
        re.sub(r"(?<=\d) (?=%|[nµm]?s\b)", NO_BREAK, text),
        min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST),
        initial_indent=first,
        subsequent_indent=others,
        break_on_hyphens=False,
    )
    return [line.replace(NO_BREAK, " ") for line in lines]

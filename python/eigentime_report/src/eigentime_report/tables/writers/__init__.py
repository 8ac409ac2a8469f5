"""A table as HTML, CSV, LaTeX or Markdown."""

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from eigentime_report.tables.table import Table
from eigentime_report.tables.writers.csv import write_csv
from eigentime_report.tables.writers.html import write_html
from eigentime_report.tables.writers.latex import write_latex
from eigentime_report.tables.writers.markdown import write_markdown

Form: TypeAlias = Literal["html", "csv", "latex", "markdown"]

WRITERS: Mapping[str, Callable[[Table], str]] = {
    "html": write_html,
    "csv": write_csv,
    "latex": write_latex,
    "markdown": write_markdown,
}


def write(table: Table, form: Form) -> str:
    """The table in one of the forms, with its title, caption and notes; CSV has the bare numbers."""
    if form not in WRITERS:
        raise ValueError(f"tables are written as {', '.join(WRITERS)}, not as {form}")
    return WRITERS[form](table)

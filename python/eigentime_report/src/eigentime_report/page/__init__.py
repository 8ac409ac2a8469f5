"""The report as a page: one HTML file for the browser and for printing, without network access.

    page = Page("What time costs", sentences=..., sections=[Section("calls", "Calls", ...)])
    Path("report.html").write_text(render(page), encoding="utf-8")

`render` defines the page and renders its HTML; `templates/` and `assets/` define its look and
behaviour.
"""

from eigentime_report.conclusions import Sentence
from eigentime_report.page.render import Block, Choice, Facts, Fold, Page, Section, render

__all__ = ["Block", "Choice", "Facts", "Fold", "Page", "Section", "Sentence", "render"]

"""The report as a page: one file of HTML for the browser, for paper, and for no network.

    page = Page("What time costs", sentences=..., sections=[Section("calls", "Calls", ...)])
    Path("report.html").write_text(render(page), encoding="utf-8")

`render` has what a page is, and its HTML; `templates/` and `assets/` what it looks like and does.
"""

from eigentime_report.conclusions import Sentence
from eigentime_report.page.render import Block, Choice, Facts, Fold, Page, Section, render

__all__ = ["Block", "Choice", "Facts", "Fold", "Page", "Section", "Sentence", "render"]

"""A page as one file of HTML that needs nothing else, and asks nobody for anything."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections import Counter
from functools import cache, partial
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from eigentime_report.charts import DARK, LIGHT, Chart
from eigentime_report.charts.plotly_layout import FEWER_COLUMNS, layout
from eigentime_report.charts.theme import recolouring
from eigentime_report.page.packed import Shared, packed
from eigentime_report.page.sections import Block, Choice, Fold, Page
from eigentime_report.tables import write

# Parts of the page that always have these ids.
FIXED_KEYS = ("conclusions", "notes", "facts", "contents", "common")

# Nothing is fetched, sent or framed; the scripts that may run are named by their hashes, so
# that none does that a name in the results may have brought along. Plotly sets styles itself,
# and makes images to be saved.
POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)

# plotly.js with lines, points and areas only; `scripts/report.sh lock` fetches it.
PLOTLY = "plotly-basic.min.js.gz"

# Tables with more columns are printed across the paper.
UPRIGHT_COLUMNS = 9
# How many notes and cards of facts are not folded away.
SHOWN = {"notes": 6, "facts": 6}

# What ends a script, or changes how its end is found, wherever it stands.
_UNIT = re.compile(r"(?<=\d) (?=(?:[nµm]?s|%)(?!\w))")
_CODE = re.compile(r"`([^`]+)`")
_ENDS = re.compile(r"<(?=/script|script|!--)", re.IGNORECASE)


def render(page: Page) -> str:
    """The page's HTML."""
    _check(page)
    environment = _environment()
    has_charts = any(True for _ in page.charts())
    shared = Shared()
    early = _asset("theme.js")
    late = [_plotly(), _asset("page.js")] if has_charts else [_asset("page.js")]
    policy = POLICY.format(scripts=" ".join(_hash(script) for script in (early, *late)))
    return environment.get_template("page.html").render(
        page=page,
        policy=policy,
        style=Markup(_asset("page.css")),
        themes={"light": LIGHT.roles, "dark": DARK.roles},
        early=Markup(early),
        late=[Markup(script) for script in late],
        has_charts=has_charts,
        widths=FEWER_COLUMNS,
        shown=SHOWN,
        block=partial(_block, shared=shared),
        # After all charts: they say what is shared.
        common=lambda: data(
            {"colours": recolouring(LIGHT, DARK), "shared": shared.values}
        ),
    )


def data(value: Any) -> Markup:
    """JSON that can stand in a script element whatever is in it."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _block(block: Block, shared: Shared) -> Markup:
    environment = _environment()
    if isinstance(block, Chart):
        text = environment.get_template("chart.html").render(
            chart=block,
            data=data(packed(block, shared)),
            height=layout(block, LIGHT)["height"],
            heights={
                width: layout(block, LIGHT, width=width)["height"]
                for width in FEWER_COLUMNS
            },
        )
    elif isinstance(block, Choice):
        text = environment.get_template("choice.html").render(
            choice=block, block=partial(_block, shared=shared)
        )
    elif isinstance(block, Fold):
        text = environment.get_template("fold.html").render(
            fold=block, block=partial(_block, shared=shared)
        )
    else:
        text = write(block, "html")
        if len(block.columns) > UPRIGHT_COLUMNS:
            text = f'<div class="wide">{text}</div>'
    return Markup(text)


def _check(page: Page) -> None:
    """Ids are there once, and each sentence's table is there."""
    keys = [*FIXED_KEYS, *(section.key for section in page.sections)]
    keys += [block.key for block in page.blocks()]
    twice = [key for key, times in Counter(keys).items() if times > 1]
    if twice:
        raise ValueError(f"parts of a page have one key: {', '.join(twice)}")
    tables = {table.key for table in page.tables()}
    for sentence in (*page.sentences, *page.more_sentences):
        if sentence.table_key not in tables:
            raise ValueError(
                f"the sentence {sentence.text!r} refers to the table {sentence.table_key!r}, "
                f"and the page has {', '.join(sorted(tables)) or 'none'}"
            )


def unbroken(text: str) -> str:
    """The text with numbers and their units on one line."""
    return _UNIT.sub("\N{NO-BREAK SPACE}", text)


def prose(text: str) -> Markup:
    """Words for a reader: what is between backticks is code, the rest is text."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(unbroken(text)))))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("eigentime_report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = unbroken
    environment.filters["prose"] = prose
    return environment


@cache
def _asset(name: str) -> str:
    return _file(name).decode("utf-8")


@cache
def _plotly() -> str:
    # Line ends are what the browser makes of them: the hash is of that.
    text = gzip.decompress(_file(PLOTLY)).decode("utf-8")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _ENDS.sub(r"\\x3c", text)


def _file(name: str) -> bytes:
    return files("eigentime_report.page").joinpath("assets", name).read_bytes()


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"

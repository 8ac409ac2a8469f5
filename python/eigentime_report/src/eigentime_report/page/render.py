"""A page, rendered as one self-contained HTML file that makes no requests."""

import base64
import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

from jinja2 import Template
from markupsafe import Markup, escape

from eigentime_report.charts import DARK, LIGHT, Chart
from eigentime_report.conclusions import Sentence
from eigentime_report.tables import Table, write
from eigentime_report.tables.writers import templates

# More sentences than this would hide the important ones.
OPENING = 9


@dataclass(frozen=True)
class Fold:
    """A part that is folded away, or one of the alternatives of a choice."""

    key: str
    title: str
    blocks: tuple[Table | Chart, ...]


@dataclass(frozen=True)
class Choice:
    """Alternatives, of which the reader sees the charts of one at a time."""

    key: str
    title: str
    # What they are, in one word.
    label: str
    options: tuple[Fold, ...]
    # The index of the one that is shown first.
    first: int = 0


Block: TypeAlias = Table | Chart | Fold | Choice


@dataclass(frozen=True)
class Section:
    """A heading with tables and charts."""

    key: str
    title: str
    blocks: tuple[Block, ...] = ()

    def parts(self) -> Iterator[Block]:
        """Its blocks, including those in folds and choices."""
        for block in self.blocks:
            yield block
            if isinstance(block, Fold):
                yield from block.blocks
            if isinstance(block, Choice):
                for option in block.options:
                    yield from (option, *option.blocks)

    def tables(self) -> list[Table]:
        """Its tables, including those in folds."""
        return [it for it in self.parts() if isinstance(it, Table)]


@dataclass(frozen=True)
class Facts:
    """Facts about a machine or a level, by name."""

    title: str
    facts: tuple[tuple[str, str], ...]
    # Folded away below them: facts about some of the runs only.
    of_some: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Page:
    """A report: conclusions, notes, machines, and sections."""

    title: str
    subtitle: str = ""
    # The conclusions at its beginning.
    picture: Chart | None = None
    sentences: tuple[Sentence, ...] = ()
    # Folded away below them, together with the last of too many.
    more_sentences: tuple[Sentence, ...] = ()
    notes: tuple[str, ...] = ()
    facts: tuple[Facts, ...] = ()
    sections: tuple[Section, ...] = ()

    @property
    def opening(self) -> tuple[Sentence, ...]:
        """The sentences at the beginning of the page."""
        return self.sentences[:OPENING]

    @property
    def further(self) -> tuple[Sentence, ...]:
        """Those that are folded away below them."""
        return (*self.sentences[OPENING:], *self.more_sentences)

    def blocks(self) -> Iterator[Block]:
        """Everything with a key, including blocks in folds and choices."""
        if self.picture:
            yield self.picture
        for section in self.sections:
            yield from section.parts()

    def charts(self) -> Iterator[Chart]:
        """All charts."""
        return (block for block in self.blocks() if isinstance(block, Chart))

    def tables(self) -> Iterator[Table]:
        """All tables."""
        return (block for block in self.blocks() if isinstance(block, Table))


# Parts of the page with fixed IDs.
FIXED_KEYS = ("conclusions", "notes", "facts", "contents", "themes")

# Nothing is fetched, sent or framed. Scripts are allowed by their hashes, so that none from a name
# in the results can run. Vega sets styles itself, and creates images to save.
POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)

# Tables with more columns are printed in landscape format.
UPRIGHT_COLUMNS = 9
# How many notes and cards of facts are not folded away.
SHOWN = {"notes": 6, "facts": 6}

_UNIT = re.compile(r"(?<=\d) (?=(?:[nµm]?s|%)(?!\w))")
_CODE = re.compile(r"`([^`]+)`")
# Strings that end a script, or change how its end is found.
_ENDS = re.compile(r"<(?=/script|script|!--)", re.IGNORECASE)


def render(page: Page) -> str:
    """The page's HTML."""
    _check(page)
    has_charts = any(True for _ in page.charts())
    early = _asset("theme.js")
    late = [*([_vega()] if has_charts else []), _asset("page.js")]
    return _template("page.html").render(
        page=page,
        policy=POLICY.format(scripts=" ".join(map(_hash, (early, *late)))),
        style=Markup(_asset("page.css")),
        themes={it.name: it.roles for it in (LIGHT, DARK)},
        early=Markup(early),
        late=[Markup(script) for script in late],
        has_charts=has_charts,
        shown=SHOWN,
        block=_block,
        # The page itself comes before the charts.
        configs=data({it.name: {**it.config, "background": None} for it in (LIGHT, DARK)}),
    )


def data(value: Any) -> Markup:
    """JSON that is safe in a script element, whatever its contents."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def packed(chart: Chart) -> str:
    """The chart's specification, compressed, in base64; `page.js` unpacks it."""
    text = json.dumps(chart.spec(), separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")


def _block(block: Block) -> Markup:
    if isinstance(block, Chart | Choice | Fold):
        template = _template(f"{type(block).__name__.lower()}.html")
        return Markup(template.render(its=block, block=_block, packed=packed))
    text = write(block, "html")
    is_wide = len(block.columns) > UPRIGHT_COLUMNS
    return Markup(f'<div class="wide">{text}</div>' if is_wide else text)


def _check(page: Page) -> None:
    """Checks that IDs are unique, and that each sentence's table exists."""
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
    """Text for a reader: code between backticks, otherwise plain text."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(unbroken(text)))))


def _template(name: str) -> Template:
    environment = templates("eigentime_report.page")
    environment.filters.update(unbroken=unbroken, prose=prose)
    return environment.get_template(name)


@cache
def _asset(name: str) -> str:
    return (files("eigentime_report.page") / "assets" / name).read_text("utf-8")


@cache
def _vega() -> str:
    """The scripts for drawing charts: Vega, Vega-Lite and Vega-Embed, in their own scope."""
    # It contains a browser engine; do not load it unless something is drawn.
    import vl_convert

    text = _ENDS.sub(r"\\x3c", vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
    # With the line ends as the browser normalizes them, because of the hash.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return f"(() => {{{text}\n}})();"


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"

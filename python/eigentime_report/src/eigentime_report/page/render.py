"""A page, and its one file of HTML that needs nothing else, and asks nobody for anything."""

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

# With more sentences than this, what matters most would not be seen.
OPENING = 9


@dataclass(frozen=True)
class Fold:
    """What is folded away until somebody asks for it, or one of the things of a choice."""

    key: str
    title: str
    blocks: tuple[Table | Chart, ...]


@dataclass(frozen=True)
class Choice:
    """Things of which the charts of one are seen at a time: the reader says which."""

    key: str
    title: str
    # What they are, in a word.
    label: str
    options: tuple[Fold, ...]
    # The place of the one that is seen first.
    first: int = 0


Block: TypeAlias = Table | Chart | Fold | Choice


@dataclass(frozen=True)
class Section:
    """A heading with tables and charts."""

    key: str
    title: str
    blocks: tuple[Block, ...] = ()

    def parts(self) -> Iterator[Block]:
        """Its blocks, with what is in folds and choices."""
        for block in self.blocks:
            yield block
            if isinstance(block, Fold):
                yield from block.blocks
            if isinstance(block, Choice):
                for option in block.options:
                    yield from (option, *option.blocks)

    def tables(self) -> list[Table]:
        """Its tables, those in folds, too."""
        return [it for it in self.parts() if isinstance(it, Table)]


@dataclass(frozen=True)
class Facts:
    """What is known of a machine or a level, by name."""

    title: str
    facts: tuple[tuple[str, str], ...]
    # Folded away below them: what holds for some of the runs only.
    of_some: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Page:
    """A report: what to conclude, what to know, what was measured where, and the rest."""

    title: str
    subtitle: str = ""
    # What it opens with.
    picture: Chart | None = None
    sentences: tuple[Sentence, ...] = ()
    # Folded away below them, as are the last ones of many.
    more_sentences: tuple[Sentence, ...] = ()
    notes: tuple[str, ...] = ()
    facts: tuple[Facts, ...] = ()
    sections: tuple[Section, ...] = ()

    @property
    def opening(self) -> tuple[Sentence, ...]:
        """The sentences that the page begins with."""
        return self.sentences[:OPENING]

    @property
    def further(self) -> tuple[Sentence, ...]:
        """Those that are folded away below them."""
        return (*self.sentences[OPENING:], *self.more_sentences)

    def blocks(self) -> Iterator[Block]:
        """All that has a key, with what is in folds and choices."""
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


# Parts of the page that always have these ids.
FIXED_KEYS = ("conclusions", "notes", "facts", "contents", "themes")

# Nothing is fetched, sent or framed; the scripts that may run are named by their hashes, so
# that none does that a name in the results may have brought along. Vega sets styles itself,
# and makes images to be saved.
POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)

# Tables with more columns are printed across the paper.
UPRIGHT_COLUMNS = 9
# How many notes and cards of facts are not folded away.
SHOWN = {"notes": 6, "facts": 6}

_UNIT = re.compile(r"(?<=\d) (?=(?:[nµm]?s|%)(?!\w))")
_CODE = re.compile(r"`([^`]+)`")
# What ends a script, or changes how its end is found, wherever it stands.
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
        # The page itself is behind the charts.
        configs=data({it.name: {**it.config, "background": None} for it in (LIGHT, DARK)}),
    )


def data(value: Any) -> Markup:
    """JSON that can stand in a script element whatever is in it."""
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


def _template(name: str) -> Template:
    environment = templates("eigentime_report.page")
    environment.filters.update(unbroken=unbroken, prose=prose)
    return environment.get_template(name)


@cache
def _asset(name: str) -> str:
    return (files("eigentime_report.page") / "assets" / name).read_text("utf-8")


@cache
def _vega() -> str:
    """What draws the charts: Vega, Vega-Lite and Vega-Embed, whose names stay its own."""
    # It has a browser's engine, which those who draw nothing need not wait for.
    import vl_convert

    text = _ENDS.sub(r"\\x3c", vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
    # Line ends are what the browser makes of them: the hash is of that.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return f"(() => {{{text}\n}})();"


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"

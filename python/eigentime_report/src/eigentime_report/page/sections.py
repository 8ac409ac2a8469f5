"""What a page consists of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from eigentime_report.charts import Chart
from eigentime_report.tables import Table

# With more sentences than this, what matters most would not be seen.
OPENING = 9


class Sentence(Protocol):
    """What a reader should conclude, and the table that says so."""

    @property
    def text(self) -> str: ...

    @property
    def table_key(self) -> str: ...


@dataclass(frozen=True)
class Fold:
    """What is folded away until somebody asks for it."""

    key: str
    title: str
    blocks: tuple[Table | Chart, ...]


@dataclass(frozen=True)
class Option:
    """The charts of one thing among several."""

    key: str
    title: str
    charts: tuple[Chart, ...]


@dataclass(frozen=True)
class Choice:
    """Things of which the charts of one are seen at a time: the reader says which."""

    key: str
    title: str
    # What they are, in a word.
    label: str
    options: tuple[Option, ...]
    # The place of the one that is seen first.
    first: int = 0


Block: TypeAlias = Table | Chart | Fold | Choice


@dataclass(frozen=True)
class Section:
    """A heading with some words, tables and charts."""

    key: str
    title: str
    # Paragraphs.
    words: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()


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

    def blocks(self) -> Iterator[Block | Option]:
        """All that has a key, with what is in folds and choices."""
        if self.picture:
            yield self.picture
        for section in self.sections:
            for block in section.blocks:
                yield block
                if isinstance(block, Fold):
                    yield from block.blocks
                if isinstance(block, Choice):
                    for option in block.options:
                        yield option
                        yield from option.charts

    def charts(self) -> Iterator[Chart]:
        """All charts."""
        return (block for block in self.blocks() if isinstance(block, Chart))

    def tables(self) -> Iterator[Table]:
        """All tables."""
        return (block for block in self.blocks() if isinstance(block, Table))

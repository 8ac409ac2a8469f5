"""A sentence of the page's first part."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sentence:
    """What a reader should conclude, and the table that has its numbers."""

    text: str
    table_key: str
    # What matters more comes first; those below `MAIN` may be folded away.
    weight: float
    # What it is about, for a heading.
    about: str = ""


# From here on, sentences belong to the opening of a page.
MAIN = 50.0


def below_main(importance: float) -> float:
    """The weight of a sentence that matters less, which importance brings nearer to the opening."""
    return MAIN * importance / (1 + importance) if importance > 0 else 0.0


def capital(text: str) -> str:
    """The text as it begins a sentence."""
    return text[:1].upper() + text[1:]

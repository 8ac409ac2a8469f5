"""The part of a document that is generated, between its two markers."""

from pathlib import Path

BEGIN = "<!-- bench:begin -->"
END = "<!-- bench:end -->"


class DocumentError(Exception):
    """The document has no place for the results."""


def replaced(document: str, generated: str) -> str:
    """`document` with what stands between the markers replaced."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise DocumentError(f"no {BEGIN} followed by {END}")
    return f"{before}{BEGIN}\n\n{generated.strip()}\n\n{END}{after}"


def write(path: Path, generated: str) -> None:
    """Put the results into the file at `path`."""
    try:
        content = replaced(path.read_text(), generated)
    except (OSError, DocumentError) as error:
        raise DocumentError(f"{path}: {error}") from error
    path.write_text(content)

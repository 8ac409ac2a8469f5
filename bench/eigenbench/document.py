"""The generated parts of a document, each between two markers."""

from pathlib import Path

# The parts: the cost of virtual time; processes, threads and many members; the library's clock,
# sleeps and events; the measuring program; the cost of a report; the accuracy of bandwidth
# estimates, and the coverage of their intervals.
BENCH = "bench"
PROCESSES = "processes"
PRECISION = "precision"
MEASURING = "measuring"
REPORTING = "reporting"
ESTIMATING = "bandwidth"
COVERING = "bandwidth-coverage"


class DocumentError(Exception):
    """The document has no place for the results."""


def markers(part: str) -> tuple[str, str]:
    """The markers around a part."""
    return f"<!-- {part}:begin -->", f"<!-- {part}:end -->"


def replaced(document: str, generated: str, part: str = BENCH) -> str:
    """`document` with the text between the markers of a part replaced."""
    first, last = markers(part)
    before, begin, rest = document.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise DocumentError(f"no {first} followed by {last}")
    return f"{before}{first}\n\n{generated.strip()}\n\n{last}{after}"


def write(path: Path, generated: str, part: str = BENCH) -> None:
    """Writes the results into the file at `path`."""
    try:
        content = replaced(path.read_text(), generated, part)
    except (OSError, DocumentError) as error:
        raise DocumentError(f"{path}: {error}") from error
    path.write_text(content)

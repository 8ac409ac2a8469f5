"""`eigentime report`: conclusions from results of `eigentime bench`."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from eigentime_report import __version__
from eigentime_report.basics import Refused

# Computing modules take a second to import, which `--help` does not need.
if TYPE_CHECKING:
    from eigentime_report.comparison import Judgement
    from eigentime_report.page import Page
    from eigentime_report.report import Detail, Tell
    from eigentime_report.results import Results

FAILED = 1
REFUSED = 2
INTERRUPTED = 130

# Returns to the beginning of the terminal's line.
WIPE = "\r\x1b[K"

FIGURE_FORMATS = ("png", "svg")
# Any less would be no better than a coin toss.
LEAST_CONFIDENCE = 0.5

NOTES = """\
Without -o, the conclusions are printed, and no file is written. Of two folders, the first is
from before and the second from after a change, and the report shows what has changed. Three or
more are shown side by side: their levels are called FOLDER: LEVEL.

A condition is [STATISTIC] QUANTITY[@level=NAME,load=NAME] OP LIMIT:
  STATISTIC  mean, median, p90, p99, p99.9, max, min, sd or mad;
             by default the mean for calls, the median for readings and
             sleeps, and the SD for events. p90 needs 36 samples, p99 368 and
             p99.9 3,688; changes of these and of medians need 5 blocks
  QUANTITY   a name or parts of it: vdso_gettimeofday, sleep/nanosleep/1ms
  OP LIMIT   > +5%, < -5%, > +100ns: a change from the first folder to the
             second; > 200us: a value
Each is compared with an interval, computed by resampling whole blocks (block
bootstrap): it is reached if the whole interval keeps the limit, missed if
all of it is beyond the limit, and undecided if the limit is within it. An
undecided condition is reported, and is a failure only with --fail-undecided:
to decide it, measure more blocks.
Other changes need 3 blocks on each side (eigentime bench --blocks 5). They
are not judged if the steps of the clock are larger than the limit; sleeps of
100 ms are judged by how late they end.

Examples:
  eigentime report results
  eigentime report results -o report.html -o tables.csv
  eigentime report results -o issue.md --only overhead-idle,served
  eigentime report before after --fail-if 'vdso_clock_gettime_monotonic > +5%'
  eigentime report results --fail-if 'p99 sleep/nanosleep/1ms@load=idle > 200us'

Exit status: 0; 1 if a condition is missed, or undecided under --fail-undecided; 2 if
arguments or a folder are wrong, or a condition cannot be judged.
"""


def _share(text: str) -> float:
    """`1%` or `0.01`."""
    number = text.removesuffix("%")
    try:
        value = float(number) / (100 if number != text else 1)
    except ValueError:
        raise _wrong(f"'{text}' is no share: say 1% or 0.01") from None
    if not 0 <= value < 1:
        raise _wrong(f"'{text}' is not from 0 to below 1, or 100%")
    return value


def _confidence(text: str) -> float:
    value = _share(text)
    if value < LEAST_CONFIDENCE:
        least = f"{LEAST_CONFIDENCE:g} is the least"
        raise _wrong(f"'{text}' is no confidence: 0.95 is usual, {least}")
    return value


def _formats(text: str) -> list[str]:
    words = text.lower().split(",")
    for word in words:
        if word not in FIGURE_FORMATS:
            known = " or ".join(FIGURE_FORMATS)
            raise _wrong(f"'{word}' is no format of figures: say {known}")
    return words


def _wrong(reason: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(reason)


# By their flags.
SWITCHES = {
    "--fail-undecided --fail-open": "exit with status 1 also if a condition is undecided: its "
    "limit is within the interval",
    "--as-in-paper": "let Levene's test choose between Tukey's test and Games and Howell's, as in "
    "published tables; otherwise it is always Games and Howell's",
    "--json": "print JSON",
    "-q --quiet": "do not show progress",
}
# Repeatable options: flags, metavar, type and help.
LISTS: tuple[tuple[str, str, Callable[[str], object], str], ...] = (
    (
        "-o --output",
        "FILE",
        Path,
        "write a page (.html), text with all tables (.md, .tex, .json) or a folder of tables (.csv)",
    ),
    ("--fail-if", "CONDITION", str, "exit with status 1 if this is so (missed); see below"),
)
# Options that can be given once, with their defaults.
VALUES: tuple[tuple[str, str, Callable[[str], object], object, str], ...] = (
    ("--tables", "DIR", Path, None, "write each table as CSV, HTML, Markdown and LaTeX"),
    ("--figures", "DIR", Path, None, "write each chart as an image"),
    ("--figure-format", "FORMAT,...", _formats, ["svg"], "the formats of images: png, svg (svg)"),
    ("--confidence", "SHARE", _confidence, 0.95, "the confidence of intervals and tests (0.95)"),
    ("--same-within", "SHARE", _share, 0.01, "differences up to this do not matter (1%%)"),
    ("--title", "TEXT", str, None, "the page's title"),
    (
        "--only",
        "TABLE,...",
        lambda text: [it for it in text.split(",") if it],
        [],
        (
            "write only these tables, and no less important sentences, except to a page; "
            "without a file to write, print these tables"
        ),
    ),
)


def parser() -> argparse.ArgumentParser:
    """The argument parser."""
    found = argparse.ArgumentParser(
        prog="eigentime report",
        description="Evaluate results of eigentime bench: tables, tests, plots and conclusions.",
        epilog=NOTES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add: Callable[..., object] = found.add_argument
    folders = "folders that eigentime bench has written"
    add("folders", metavar="DIR", nargs="+", type=Path, help=folders)
    for flags, name, kind, words in LISTS:
        several = {"action": "append", "default": [], "type": kind}
        add(*flags.split(), metavar=name, help=f"{words}; may be repeated", **several)
    for flags, name, kind, default, words in VALUES:
        add(flags, metavar=name, type=kind, default=default, help=words)
    for flags, words in SWITCHES.items():
        add(*flags.split(), action="store_true", help=words)
    version = f"eigentime report {__version__}"
    add("--version", action="version", version=version, help="print the version")
    return found


def run(arguments: Sequence[str]) -> int:
    """Does what is requested, and returns the exit status."""
    options = parser().parse_args(arguments)
    try:
        return _run(options)
    except Refused as refused:
        print(f"eigentime report: {refused}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(options: argparse.Namespace) -> int:
    from eigentime_report import comparison, outputs

    folders = [it for it in (options.tables, options.figures) if it]
    conditions = [comparison.parse(text) for text in options.fail_if]
    for path in options.output:
        outputs.check(path)
    for folder in folders:
        outputs.check_folder(folder)
    with _progress(options.quiet) as tell:
        before, after = _load(options.folders, tell)
        tell("judging conditions")
        judgements = comparison.judge(conditions, before, after, confidence=options.confidence)
        page = _page(options, before, after, judgements, tell)
        short = outputs.only(page, options.only) if options.only else page
        for path in options.output:
            tell(f"writing {path}")
            is_page = outputs.suffix_of(path) == ".html"
            outputs.write_report(path, page if is_page else short, judgements)
        if options.tables:
            tell(f"writing {options.tables}")
            outputs.write_tables(options.tables, short)
        if options.figures:
            suffixes = [f".{it}" for it in options.figure_format]
            outputs.write_figures(options.figures, page, suffixes, tell)
    if options.json:
        _print(outputs.as_json(short, judgements))
    elif not (options.output or folders):
        text = outputs.tables(short) if options.only else outputs.on_terminal(page)
        _print(f"{text}\n")
    for written in (*options.output, *folders):
        print(f"report: {written}", file=sys.stderr)
    for path in options.output:
        outputs.warn_of_length(path)
    return _outcome(judgements, options.fail_undecided)


def _print(text: str) -> None:
    """Prints, or reports why that failed."""
    try:
        print(text, end="", flush=True)
    except OSError as error:
        raise Refused(
            f"standard output: it cannot be written: {error.strerror or error}"
        ) from error


def _detail(options: argparse.Namespace) -> Detail:
    """How much of the report is needed."""
    from eigentime_report.report import Detail

    if options.figures or any(it.suffix.lower() == ".html" for it in options.output):
        return Detail.CHARTS
    is_seen = options.output or options.tables or options.json or options.only
    return Detail.TABLES if is_seen else Detail.WORDS


def _load(folders: Sequence[Path], tell: Tell) -> tuple[Results | None, Results]:
    """The results from before, if there are two folders, and the results to report on."""
    from eigentime_report.report import told_apart
    from eigentime_report.results import load

    tell(f"reading {', '.join(map(str, folders))}")
    if len(folders) == 1:
        return None, load(folders[0])
    if len(folders) == 2:
        return load(folders[0]), load(folders[1])
    labels = told_apart([it] for it in folders)
    if len(set(labels)) < len(labels):
        raise Refused("the same folder is named twice\nhelp: name each folder once")
    return None, load(*folders, labels=labels)


def _page(
    options: argparse.Namespace,
    before: Results | None,
    after: Results,
    judgements: Sequence[Judgement],
    tell: Tell,
) -> Page:
    from eigentime_report.comparison import compare_results
    from eigentime_report.report import comparison_page, report_page

    limits = {"confidence": options.confidence, "same_within": options.same_within}
    own: Any = {"title": options.title, "judgements": judgements, "detail": _detail(options)}
    if before is None:
        return report_page(after, as_in_paper=options.as_in_paper, tell=tell, **limits, **own)
    tell("comparing")
    return comparison_page(compare_results(before, after, **limits), **own)


def _outcome(judgements: Sequence[Judgement], fails_undecided: bool) -> int:
    """Prints which conditions are not met, and returns the exit status."""
    from eigentime_report.comparison import Outcome

    for it in judgements:
        if it.outcome is not Outcome.REACHED:
            print(it, file=sys.stderr)
    outcomes = {it.outcome for it in judgements}
    if Outcome.MISSED in outcomes or (fails_undecided and Outcome.UNDECIDED in outcomes):
        return FAILED
    return REFUSED if Outcome.NOT_JUDGED in outcomes else 0


@contextmanager
def _progress(is_quiet: bool) -> Iterator[Tell]:
    """Shows the current step on a terminal, in one line that disappears at the end."""
    is_seen = sys.stderr.isatty() and not is_quiet

    def show(text: str) -> None:
        if is_seen:
            print(f"{WIPE}{text}", end="", file=sys.stderr, flush=True)

    def tell(words: str) -> None:
        show(f"{words} …"[: shutil.get_terminal_size().columns - 1])

    try:
        yield tell
    finally:
        show("")


def main() -> NoReturn:
    """The program. Status 1 is only for failed conditions."""
    # As in other programs, a closed output pipe is not an error.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    # The streams that are not closed.
    streams = [it for it in (sys.stdout, sys.stderr) if it]
    for stream in streams:
        # A terminal without µ still shows the rest.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        status: str | int | None = run(sys.argv[1:])
    except SystemExit as ended:
        status = ended.code
    except OSError as error:
        print(f"eigentime report: {error.strerror or error}", file=sys.stderr)
        status = REFUSED
    except Exception:  # noqa: BLE001 - it is told, with where it was.
        traceback.print_exc()
        print(
            "eigentime report: this is a fault of the program, not of what it was given\n"
            "help: report it with all of the above",
            file=sys.stderr,
        )
        status = REFUSED
    for stream in streams:
        try:
            stream.flush()
        except OSError as error:
            # Python would try to flush again, and exit with its own status.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if not status:
                print(f"eigentime report: {error.strerror or error}", file=sys.stderr)
            status = status or REFUSED
    sys.exit(status)

"""`eigentime report`: what follows from results of `eigentime bench`."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

# What computes takes a second to import, which those who ask for help need not wait for.
if TYPE_CHECKING:
    from eigentime_report.comparison import Judgement
    from eigentime_report.page import Page
    from eigentime_report.parts import Detail, Tell
    from eigentime_report.results import Results

FAILED = 1
REFUSED = 2
INTERRUPTED = 130

# Begins the terminal's line anew.
WIPE = "\r\x1b[K"

FIGURE_FORMATS = ("png", "svg")
# With less, a coin would do.
LEAST_CONFIDENCE = 0.5

# Click leaves paragraphs alone that begin with this.
AS_IT_IS = "\b\n"

NOTES = f"""
Without -o, what is to be concluded is printed, and no file is written. Of two folders, the first
is from before and the second from afterwards, and what has changed is told. Three or more are put
side by side: their levels are called FOLDER: LEVEL.

{AS_IT_IS}A condition is [STATISTIC] QUANTITY[@level=NAME,load=NAME] OP LIMIT:
  STATISTIC  mean, median, p90, p99, p99.9, max, min, sd or mad;
             without one, of calls the mean, of readings and sleeps the
             median, of events the MAD. p90 needs 36 samples, p99 368 and
             p99.9 3,688; changes of these and of medians need 5 blocks
  QUANTITY   a name or parts of it: vdso_gettimeofday, sleep/nanosleep/1ms
  OP LIMIT   > +5%, < -5%, > +100ns: a change from the first folder to the
             second; > 200us: a value
Each is held against an interval, made by drawing whole blocks (block
bootstrap): it is reached if the whole interval keeps the limit, missed if
all of it is beyond, and undecided if the limit is within. What is
undecided is told, and does not fail but with --fail-undecided: measure in
more blocks.
Other changes are judged from 3 blocks on each side (eigentime bench --blocks 5),
and not where the clock goes in steps that are larger than what is asked
about; of sleeps of 100 ms by how late they end.

{AS_IT_IS}Examples:
  eigentime report results
  eigentime report results -o report.html -o tables.csv
  eigentime report results -o issue.md --only overhead-idle,served
  eigentime report before after --fail-if 'vdso_clock_gettime_monotonic > +5%'
  eigentime report results --fail-if 'p99 sleep/nanosleep/1ms@load=idle > 200us'

Exit status: 0; 1 if a condition is missed, or undecided under --fail-undecided; 2 if arguments or a folder are wrong, or a condition
cannot be judged.
"""

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@dataclass(frozen=True)
class Options:
    """What is asked for."""

    folders: Sequence[Path]
    outputs: Sequence[Path]
    conditions: Sequence[str]
    tables: Path | None
    figures: Path | None
    figure_formats: Sequence[str]
    confidence: float
    same_within: float
    is_json: bool
    title: str | None
    as_in_paper: bool = False
    only: Sequence[str] = ()
    fails_undecided: bool = False
    is_quiet: bool = False

    @property
    def is_written(self) -> bool:
        """Whether there is anything to write to files."""
        return bool(self.outputs or self.tables or self.figures)

    @property
    def detail(self) -> Detail:
        """How much of a report anybody will see."""
        from eigentime_report.parts import Detail

        if self.figures or any(it.suffix.lower() == ".html" for it in self.outputs):
            return Detail.CHARTS
        is_seen = self.is_written or self.is_json or self.only
        return Detail.TABLES if is_seen else Detail.WORDS


class Refused(Exception):
    """What cannot be done, with the reason and the way out."""


def _share(option: str, text: str) -> float:
    """`1%` or `0.01`."""
    number = text.removesuffix("%")
    try:
        value = float(number) / (100 if number != text else 1)
    except ValueError:
        raise _wrong(option, f"'{text}' is no share: say 1% or 0.01") from None
    if not 0 <= value < 1:
        raise _wrong(option, f"'{text}' is not from 0 to below 1, or 100%")
    return value


def _confidence(option: str, text: str) -> float:
    value = _share(option, text)
    if value < LEAST_CONFIDENCE:
        least = f"{LEAST_CONFIDENCE:g} is the least"
        raise _wrong(option, f"'{text}' is no confidence: 0.95 is usual, {least}")
    return value


def _formats(option: str, text: str) -> list[str]:
    words = text.lower().split(",")
    for word in words:
        if word not in FIGURE_FORMATS:
            known = " or ".join(FIGURE_FORMATS)
            raise _wrong(option, f"'{word}' is no format of figures: say {known}")
    return words


def _wrong(option: str, reason: str) -> typer.BadParameter:
    return typer.BadParameter(reason, param_hint=option)


def _version(is_asked: bool) -> None:
    if is_asked:
        from eigentime_report import __version__

        print(f"eigentime report {__version__}")
        raise typer.Exit


@app.command(epilog=NOTES)
def command(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR", help="Folders that eigentime bench has written"),
    ],
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write a page (.html), text with all tables (.md, .tex, .json) or a folder "
            "of tables (.csv); can be given several times",
        ),
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help="End with status 1 if this is so (missed); see below",
        ),
    ] = None,
    fail_undecided: Annotated[
        bool,
        typer.Option(
            "--fail-undecided",
            "--fail-open",
            help="End with status 1 also if a condition is undecided: its limit is within the "
            "interval",
        ),
    ] = False,
    tables: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write each table as CSV, HTML, Markdown and LaTeX"
        ),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write each chart as an image")
    ] = None,
    figure_format: Annotated[
        str, typer.Option(metavar="FORMAT,...", help="Of these: png, svg")
    ] = "svg",
    confidence: Annotated[
        str,
        typer.Option(metavar="SHARE", help="At which intervals hold and tests decide"),
    ] = "0.95",
    same_within: Annotated[
        str, typer.Option(metavar="SHARE", help="Up to which differences do not matter")
    ] = "1%",
    as_in_paper: Annotated[
        bool,
        typer.Option(
            "--as-in-paper",
            help="Let Levene's test choose between Tukey's and Games and Howell's, as published "
            "tables have it; else it is Games and Howell's always",
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The page's title")
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            metavar="TABLE,...",
            help="All but a page in short: of the tables these only, and no sentences that "
            "matter less; without a file to write, print these",
        ),
    ] = "",
    quiet: Annotated[
        bool,
        typer.Option("-q", "--quiet", help="Do not tell what is done at the moment"),
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version"
        ),
    ] = False,
) -> None:
    """Evaluate results of eigentime bench: tables, tests, plots and conclusions."""
    options = Options(
        folders=folders,
        outputs=output or (),
        conditions=fail_if or (),
        tables=tables,
        figures=figures,
        figure_formats=_formats("--figure-format", figure_format),
        confidence=_confidence("--confidence", confidence),
        same_within=_share("--same-within", same_within),
        is_json=json,
        title=title,
        as_in_paper=as_in_paper,
        only=[it for it in only.split(",") if it],
        fails_undecided=fail_undecided,
        is_quiet=quiet,
    )
    try:
        status = run(options)
    except Refused as refused:
        print(f"eigentime report: {refused}", file=sys.stderr)
        status = REFUSED
    except KeyboardInterrupt:
        status = INTERRUPTED
    raise typer.Exit(status)


def run(options: Options) -> int:
    """Does what is asked for, and returns the exit status."""
    from eigentime_report import comparison, outputs
    from eigentime_report.results import FolderError

    try:
        conditions = [comparison.parse(text) for text in options.conditions]
        for path in options.outputs:
            outputs.check(path)
        for folder in (options.tables, options.figures):
            if folder:
                outputs.check_folder(folder)
        with _progress(options.is_quiet) as tell:
            before, after = _load(options.folders, tell)
            tell("judging conditions")
            judgements = comparison.judge(
                conditions, before, after, confidence=options.confidence
            )
            page = _page(options, before, after, judgements, tell)
            short = outputs.only(page, options.only) if options.only else page
            _write(options, page, short, judgements, tell)
    except (
        FolderError,
        comparison.ComparisonError,
        comparison.ConditionError,
        outputs.OutputError,
    ) as error:
        raise Refused(str(error)) from error
    if options.is_json:
        _print(outputs.as_json(short, judgements))
    elif not options.is_written:
        text = outputs.tables(short) if options.only else outputs.on_terminal(page)
        _print(f"{text}\n")
    _tell_written(options)
    return _outcome(judgements, options.fails_undecided)


def _print(text: str) -> None:
    """Prints, or says why that cannot be."""
    try:
        print(text, end="", flush=True)
    except OSError as error:
        raise Refused(
            f"standard output: it cannot be written: {error.strerror or error}"
        ) from error


def _load(folders: Sequence[Path], tell: Tell) -> tuple[Results | None, Results]:
    """The results from before, if there are two folders, and those to report on."""
    from eigentime_report.results import load

    tell(f"reading {', '.join(map(str, folders))}")
    if len(folders) == 2:
        return load(folders[0]), load(folders[1])
    return None, load(*folders, labels=_labels(folders) if len(folders) > 2 else None)


def _labels(folders: Sequence[Path]) -> list[str]:
    """The folders' names, with as many of those above as it takes to tell them apart."""
    parts = [folder.resolve().parts for folder in folders]
    for depth in range(1, max(map(len, parts)) + 1):
        labels = ["/".join(own[-depth:]) for own in parts]
        if len(set(labels)) == len(labels):
            return labels
    raise Refused("the same folder is named twice\nhelp: name each folder once")


def _page(
    options: Options,
    before: Results | None,
    after: Results,
    judgements: Sequence[Judgement],
    tell: Tell,
) -> Page:
    from eigentime_report.comparison import compare_results
    from eigentime_report.report import comparison_page, report_page

    if before is None:
        return report_page(
            after,
            title=options.title,
            confidence=options.confidence,
            same_within=options.same_within,
            as_in_paper=options.as_in_paper,
            judgements=judgements,
            detail=options.detail,
            tell=tell,
        )
    tell("comparing")
    changes = compare_results(
        before, after, confidence=options.confidence, same_within=options.same_within
    )
    return comparison_page(
        changes,
        title=options.title,
        judgements=judgements,
        detail=options.detail,
    )


def _write(
    options: Options,
    page: Page,
    short: Page,
    judgements: Sequence[Judgement],
    tell: Tell,
) -> None:
    """Writes all files: a page with everything, the others in short if that is asked for."""
    from eigentime_report import outputs

    for path in options.outputs:
        tell(f"writing {path}")
        is_page = outputs.suffix_of(path) == ".html"
        outputs.write_report(path, page if is_page else short, judgements)
    if options.tables:
        tell(f"writing {options.tables}")
        outputs.write_tables(options.tables, short)
    if options.figures:
        suffixes = [f".{it}" for it in options.figure_formats]
        outputs.write_figures(options.figures, page, suffixes, tell)


def _tell_written(options: Options) -> None:
    """Which files there are, and which are too long for what they may be meant for."""
    from eigentime_report import outputs

    for written in (*options.outputs, options.tables, options.figures):
        if written:
            print(f"report: {written}", file=sys.stderr)
    for path in options.outputs:
        if outputs.suffix_of(path) == ".md":
            length = len(path.read_text(encoding="utf-8"))
            if length > outputs.ISSUE:
                print(
                    f"report: {path} has {length:,} characters, and an issue on GitHub takes "
                    f"{outputs.ISSUE:,}: --only TABLE,... chooses tables",
                    file=sys.stderr,
                )


def _outcome(judgements: Sequence[Judgement], fails_undecided: bool) -> int:
    """Says which conditions are not reached, and returns the exit status."""
    from eigentime_report.comparison import Outcome

    for it in judgements:
        if it.outcome is not Outcome.REACHED:
            print(it, file=sys.stderr)
    outcomes = {it.outcome for it in judgements}
    if Outcome.MISSED in outcomes or (
        fails_undecided and Outcome.UNDECIDED in outcomes
    ):
        return FAILED
    return REFUSED if Outcome.NOT_JUDGED in outcomes else 0


@contextmanager
def _progress(is_quiet: bool) -> Iterator[Tell]:
    """Says on a terminal what is done at the moment, in one line that goes when all is done."""
    is_seen = sys.stderr.isatty() and not is_quiet

    def tell(words: str) -> None:
        if is_seen:
            width = shutil.get_terminal_size().columns
            print(
                f"{WIPE}{f'{words} …'[: width - 1]}",
                end="",
                file=sys.stderr,
                flush=True,
            )

    try:
        yield tell
    finally:
        if is_seen:
            print(WIPE, end="", file=sys.stderr, flush=True)


def main() -> None:
    """The program. Status 1 is for conditions that have failed, and for nothing else."""
    # As for other programs, it is no fault that nobody reads to the end.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    # It warns of homes that cannot be written to, and works in them all the same.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    for stream in _streams():
        # A terminal that has no µ is to show the rest.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        app(prog_name="eigentime report")
        status: str | int | None = 0
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
    for stream in _streams():
        try:
            stream.flush()
        except OSError:
            # Python would try it once more, and end with a status of its own.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            status = status or REFUSED
    sys.exit(status)


def _streams() -> list[TextIO]:
    """Those that are not closed."""
    return [it for it in (sys.stdout, sys.stderr) if it]

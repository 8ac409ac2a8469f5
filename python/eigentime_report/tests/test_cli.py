"""The program: arguments in, files and text out, and its exit status."""

import csv
import errno
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import making
import pytest
from comparison import folders
from comparison.folders import VDSO

from eigentime_report import __version__, cli, outputs
from eigentime_report.report import told_apart


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folders.folder(tmp_path_factory.mktemp("before"), seed=1, loads=("idle",))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose charts are soon drawn."""
    return making.folder(
        tmp_path_factory.mktemp("small"),
        calls=[making.Calls(VDSO, 20.0, sd=0.2, records=20)],
        sleeps=[making.Sleeps("nanosleep", 1_000_000, 60_000, sd=500, count=50)],
        blocks=2,
    )


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("after")
    return folders.folder(path, seed=2, vdso=folders.GROWN, loads=("idle",))


@pytest.fixture(scope="module")
def files(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All tables and figures of it."""
    path = tmp_path_factory.mktemp("files")
    result = run(small, "--tables", path / "deep" / "tables", "--figures", path / "figures")
    assert result.exit_code == 0, result.stderr
    return path


@dataclass(frozen=True)
class Result:
    """What has come of some arguments."""

    exit_code: object
    stdout: str
    stderr: str


def run(*arguments: object) -> Result:
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        try:
            status: object = cli.run([str(it) for it in arguments])
        except SystemExit as ended:
            status = ended.code
    return Result(status, out.getvalue(), errors.getvalue())


def refused(*arguments: object) -> str:
    """What is said of arguments that are refused."""
    result = run(*arguments)
    assert result.exit_code == cli.REFUSED, result.stderr
    return result.stderr


def test_without_files_conclusions_are_printed(before: Path) -> None:
    result = run(before)
    assert result.exit_code == 0
    assert result.stdout.startswith("What time costs: testbed")
    assert "- On the host, " in result.stdout
    items = [it for it in result.stdout.splitlines() if it.startswith("- ")]
    assert 5 <= len(items) <= 9
    assert re.search(r"^\d+ more sentences?( and \d+ notes?)?, ", result.stdout, re.MULTILINE)
    assert "nan" not in result.stdout.lower().replace("nanosleep", "")
    assert max(map(len, result.stdout.splitlines())) <= 100


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("report.html", ["<!doctype html>", "Table IV", "</html>"]),
        ("report.md", ["# What time costs", "## Overhead of calls", f"| calls/{VDSO}"]),
        ("report.tex", [r"\begin{longtable}", r"\end{longtable}", r"vdso\_\allowbreak{}clock"]),
    ],
)
def test_a_report_is_written_as_its_suffix_says(
    small: Path, tmp_path: Path, name: str, parts: list[str]
) -> None:
    file = tmp_path / name
    result = run(small, "-o", file)
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"report: {file}" in result.stderr
    text = file.read_text(encoding="utf-8").replace("\\_", "_").replace(r"\\_", r"\_")
    for part in parts:
        assert part.replace("\\_", "_") in text
    assert [it.name for it in tmp_path.iterdir()] == [name]


def test_suffixes_may_be_in_capitals(small: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("A.HTML", "B.Md", "C.JSON", "D.CSV")]
    wanted = [it for file in files for it in ("-o", file)]
    assert run(small, *wanted).exit_code == 0
    page, text, data, tables = files
    assert 'class="plot"' in page.read_text() and text.read_text().startswith("# ")
    assert json.loads(data.read_text())["form"] == 1
    assert (tables / "overhead-idle.csv").exists()


def test_a_short_form_fits_an_issue(
    before: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "ISSUE", 25_000)
    whole, short = tmp_path / "whole.md", tmp_path / "short.md"
    said = run(before, "-o", whole)
    assert run(before, "-o", short, "--only", "overhead-*,served").exit_code == 0
    text = short.read_text()
    assert len(text) < outputs.ISSUE < len(whole.read_text())
    assert "--only" in said.stderr and str(whole) in said.stderr
    assert "## What to conclude" in text and "## Overhead of calls" in text
    assert "What matters less" not in text and "pairs" not in text.lower()
    assert len(re.findall(r"^\| :---", text, re.MULTILINE)) == 2
    printed = json.loads(run(before, "--json", "--only", "served").stdout)
    assert list(printed["tables"]) == ["served"]
    refusal = refused(before, "-o", short, "--only", "overhead-idel")
    assert "no table is called 'overhead-idel'" in refusal
    assert "help: near it: overhead-idle" in refusal
    assert "served" in refused(before, "--only", "zzz")


def test_tables_that_are_asked_for_are_printed(before: Path, after: Path) -> None:
    """Without a file to write they are what there is to see."""
    result = run(before, "--only", "overhead-idle,served")
    assert result.exit_code == 0, result.stderr
    assert len(re.findall(r"^\| :---", result.stdout, re.MULTILINE)) == 2
    printed = result.stdout.replace("\\_", "_")
    assert f"| {VDSO} " in printed and "What to conclude" not in result.stdout
    both = run(before, after, "--only", "changes-calls")
    assert both.exit_code == 0 and f"| calls/{VDSO} " in both.stdout.replace("\\_", "_")


def test_a_page_is_whole_also_beside_a_short_form(small: Path, tmp_path: Path) -> None:
    page, short = tmp_path / "page.html", tmp_path / "short.md"
    assert run(small, "-o", page, "-o", short, "--only", "served").exit_code == 0
    assert 'id="overhead-idle"' in page.read_text()
    assert "Table IV" not in short.read_text()


def test_what_is_done_is_told_on_a_terminal(small: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    said = on_terminal(small, "-o", file)
    for words in ("reading", "testing calls over levels", "drawing sleep", "writing"):
        assert words in said
    assert said.splitlines()[-1].endswith(f"report: {file}")
    assert "reading" not in on_terminal(small, "--quiet", "-o", tmp_path / "report.md")


def on_terminal(*arguments: object) -> str:
    """What is said on standard error, if that is a terminal."""
    own, its = pty.openpty()
    with os.fdopen(own, "rb") as told, os.fdopen(its, "w") as terminal:
        with redirect_stderr(terminal):
            assert cli.run([str(it) for it in arguments]) == 0
        print("THE END", file=terminal, flush=True)
        said = b""
        while b"THE END" not in said:
            said += told.read1()
    return said.decode().partition("THE END")[0]


def test_json_holds_conclusions_and_tables(before: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    assert run(before, "-o", file, "--title", "Monday").exit_code == 0
    found = json.loads(file.read_text())
    assert (found["form"], found["title"]) == (1, "Monday")
    table = found["tables"]["overhead-idle"]
    assert table["units"]["mean"] == "ns"
    row = next(it for it in table["rows"] if it["metric"] == VDSO)
    assert row["mean"] == pytest.approx(20, rel=0.01)
    assert {it["table"] for it in found["conclusions"]} <= set(found["tables"])
    printed = run(before, "--json", "--title", "Monday")
    assert json.loads(printed.stdout) == found


def test_csv_is_a_folder_of_tables(before: Path, tmp_path: Path) -> None:
    folder = tmp_path / "all.csv"
    assert run(before, "-o", folder).exit_code == 0
    with (folder / "overhead-idle.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {"metric", "mean_ns", "paper_mean_ns"} <= set(rows[0])
    assert all(it.suffix == ".csv" for it in folder.iterdir())


def test_tables_and_figures_are_files_of_their_own(files: Path) -> None:
    names = {it.name for it in (files / "deep" / "tables").iterdir()}
    assert {f"overhead-idle{it}" for it in (".csv", ".html", ".md", ".tex")} <= names
    drawn = list((files / "figures").iterdir())
    assert drawn and all(it.suffix == ".svg" and it.stat().st_size for it in drawn)


def test_two_folders_are_compared(before: Path, after: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.md"
    assert run(before, after, "-o", file).exit_code == 0
    text = file.read_text()
    assert "What has changed" in text
    assert re.search(r"takes .* longer than before", text)


def test_more_folders_are_put_side_by_side(before: Path, after: Path, tmp_path: Path) -> None:
    third = folders.folder(tmp_path / "third", seed=3)
    result = run(before, after, third, "--json")
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)["tables"]["descriptives-calls"]["rows"]
    levels = {row["level"] for row in rows}
    assert {f"{it.name}: baseline" for it in (before, after, third)} <= levels


def test_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    paths = [tmp_path / day / "results" for day in ("monday", "tuesday")]
    assert told_apart([[it] for it in (*paths, tmp_path / "other")]) == [
        "monday/results",
        "tuesday/results",
        f"{tmp_path.name}/other",
    ]
    assert told_apart([[tmp_path / "a"], [tmp_path / "b"]]) == ["a", "b"]


@pytest.mark.parametrize(
    ("condition", "status"),
    [(f"{VDSO} > +5%", cli.FAILED), (f"{VDSO} > +20%", 0), ("clock_getime > +5%", cli.REFUSED)],
)
def test_conditions_decide_the_exit_status(
    before: Path, after: Path, condition: str, status: int
) -> None:
    result = run(before, after, "--fail-if", condition)
    assert result.exit_code == status
    said = {cli.FAILED: f"missed: {condition}: calls/{VDSO} at baseline, idle: ", 0: ""}
    if status == cli.REFUSED:
        assert result.stderr.startswith(f"not judged: {condition}: nothing")
    else:
        assert result.stderr.startswith(said[status])
        assert bool(result.stderr) == bool(status)


def test_what_is_undecided_fails_if_that_is_asked_for(tmp_path: Path) -> None:
    """A quarter more in the mean, which one block of five makes."""
    before, after = (
        making.folder(
            tmp_path / name,
            calls=[making.Calls(VDSO, 20.0, sd=0.1, records=10, blocks=blocks)],
            levels=("baseline",),
            blocks=5,
            run=name,
        )
        for name, blocks in (("before", [0.0] * 5), ("after", [0, 0, 25, 0, 0]))
    )
    condition = ("--fail-if", f"{VDSO} > +5%")
    for options, status in (((), 0), (("--fail-undecided",), cli.FAILED)):
        result = run(before, after, *condition, *options)
        assert result.exit_code == status
        assert result.stderr.startswith(f"undecided: {VDSO} > +5%: ")
    held = run(before, after, "--fail-if", f"{VDSO} > +500%", "--fail-undecided")
    assert held.exit_code == 0


def test_a_failure_counts_more_than_what_cannot_be_judged(before: Path, after: Path) -> None:
    both = ("--fail-if", "zzz > +5%", "--fail-if", f"{VDSO} > +5%")
    result = run(before, after, *both)
    assert result.exit_code == cli.FAILED
    assert "not judged: zzz" in result.stderr


def test_outcomes_are_part_of_the_report(before: Path, after: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.md"
    condition = f"{VDSO}@level=baseline,load=idle > +5%"
    assert run(before, after, "-o", file, "--fail-if", condition).exit_code == 1
    assert "Missed: vdso" in file.read_text()
    said = run(before, after, "--json", "--fail-if", condition)
    (outcome,) = json.loads(said.stdout)["conditions"]
    assert outcome["outcome"] == "missed"
    assert outcome["quantity"] == f"calls/{VDSO}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-o", "report.pdf"), "report.pdf: a report is written as .html"),
        (("-o", "/proc/none/report.html"), "/proc/none: it cannot be made"),
        (("--fail-if", "tsc"), "an operator is missing"),
        (("--confidence", "95"), "--confidence: '95' is not from 0 to below 1"),
        (("--confidence", "0.1"), "'0.1' is no confidence"),
        (("--same-within", "little"), "--same-within: 'little' is no share"),
        (("--figure-format", "gif"), "'gif' is no format"),
        (("--bogus",), "--bogus"),
        (("/nowhere",), "/nowhere: there is no such folder"),
        (("/nowhere", "--json"), "help: "),
    ],
)
def test_what_is_wrong_is_named(before: Path, arguments: tuple[str, ...], said: str) -> None:
    assert said in refused(before, *arguments)


def test_no_folder_is_refused() -> None:
    assert "DIR" in refused()


def test_a_folder_without_results_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path}/manifest.json: it is not there" in refused(tmp_path)


def test_the_same_folder_twice_is_refused(before: Path) -> None:
    assert "same run" in refused(before, before)
    assert "same folder" in refused(before, before, before)


def test_a_file_in_the_place_of_a_folder_is_refused(before: Path, tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text("")
    assert "a file of that name" in refused(before, "-o", tmp_path / "all.csv")
    (tmp_path / "report.md").mkdir()
    assert "a folder of that name" in refused(before, "-o", tmp_path / "report.md")


@pytest.mark.parametrize("folder", ["deep/tables", "figures"])
def test_a_folder_in_the_place_of_a_file_is_refused(
    small: Path, files: Path, tmp_path: Path, folder: str
) -> None:
    taken = min(it.name for it in (files / folder).iterdir())
    (tmp_path / taken).mkdir()
    said = refused(small, f"--{Path(folder).name}", tmp_path)
    assert f"{tmp_path / taken}: it cannot be written: Is a dir" in said
    assert not [it for it in tmp_path.iterdir() if it.name[0] == "."]


def test_no_half_figure_is_left(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, text: str, **rest: object) -> None:
        self.write_bytes(text[:9].encode())
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    said = refused(small, "--figures", tmp_path / "figures")
    assert ".svg: it cannot be written: No space left" in said
    assert not list((tmp_path / "figures").iterdir())


def test_what_a_link_leads_to_is_written(small: Path, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    link, file = tmp_path / "report.md", tmp_path / "deep" / "real.txt"
    link.symlink_to(file)
    assert run(small, "-o", link).exit_code == 0
    assert link.is_symlink() and file.read_text().startswith("# What time costs")


def test_a_title_may_have_what_is_no_character(small: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.md"
    assert run(small, "-o", file, "--title", "a \udcff").exit_code == 0
    assert "udcff" in file.read_text("utf-8")


def test_standard_output_that_is_full_is_told(small: Path) -> None:
    errors = io.StringIO()
    with open("/dev/full", "w") as full, redirect_stdout(full), redirect_stderr(errors):
        assert cli.run([str(small)]) == cli.REFUSED
        # What is left in the buffer goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())
    assert "No space left on device" in errors.getvalue()


def test_nobody_has_to_read_to_the_end() -> None:
    command = [sys.executable, "-m", "eigentime_report", "--help"]
    own, its = os.pipe()
    os.close(own)
    said = subprocess.run(command, stdout=its, stderr=subprocess.PIPE, check=False)
    os.close(its)
    assert (said.returncode, said.stderr) == (-signal.SIGPIPE, b"")


def test_a_fault_of_the_program_is_no_condition_that_has_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("of a test")

    monkeypatch.setattr(cli, "run", broken)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == cli.REFUSED
    said = capsys.readouterr().err
    assert "ZeroDivisionError: of a test" in said and "fault of the program" in said


def test_a_run_of_one_level_has_no_tests_and_no_gaps(tmp_path: Path) -> None:
    path = making.folder(
        tmp_path / "run",
        calls=[making.Calls(metric="clock_getres", centre=100.0, records=3)],
        levels=("baseline",),
        blocks=1,
    )
    for arguments in ((), ("-o", tmp_path / "report.html"), ("--json",)):
        result = run(path, *arguments)
        assert result.exit_code == 0, result.stderr
        assert "NaN" not in result.stdout


def test_the_program_runs_by_itself(small: Path) -> None:
    command = [sys.executable, "-m", "eigentime_report"]
    assert run("--version").stdout == f"eigentime report {__version__}\n"
    helped = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert helped.stdout.startswith("usage: eigentime report [-h]")
    for word in ("--fail-if", "STATISTIC", "Exit status"):
        assert word in helped.stdout
    # An old terminal shows the rest.
    told = subprocess.run(
        [*command, str(small)],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    assert b"What time costs" in told.stdout

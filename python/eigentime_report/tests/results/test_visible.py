"""Names that would be commands elsewhere: to a terminal, to a reader's eye, to XML."""

from pathlib import Path
from xml.etree import ElementTree

import making
import pytest

import eigentime_report as report
from eigentime_report import cli
from eigentime_report.results.tables import visible


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("vm, µs 漢字", "vm, µs 漢字"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("a\x00b\x9bc", r"a\x00b\x9bc"),
        ("+1\n# head\tx", "+1 # head x"),
        ("\u202egnp", r"\u202egnp"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_nobody_sees_is_told(text: str, seen: str) -> None:
    assert visible(text) == seen
    assert seen.isprintable()


def test_names_of_a_folder_are_no_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    red, turned = "\x1b[31mred\x07", "\u202egnp"
    folder = making.folder(
        tmp_path / "run",
        calls=[making.Calls("gettimeofday", 100, sd=1)],
        warps=["tsc\x1b"],
        levels=("baseline", red, turned),
        machine="a\x00b",
        remarks=["\x1b]0;title\x07"],
        notes={red: {"accelerator": "tcg"}},
        blocks=3,
    )
    results = report.load(folder)
    assert results.levels == ("baseline", visible(red), visible(turned))
    cell = results.cells("calls/gettimeofday")[1]
    assert (cell.level, cell.facts["accelerator"]) == (visible(red), "tcg")
    files = [tmp_path / f"report{it}" for it in (".md", ".tex", ".html", ".json")]
    arguments = [it for file in files for it in ("-o", str(file))]
    figures = tmp_path / "figures"
    for more in ([], [*arguments, "--figures", str(figures)]):
        assert cli.run([str(folder), *more]) == 0
        said = capsys.readouterr()
        assert "\x1b" not in said.out + said.err
    for file in files:
        assert not set("\x00\x07\x1b\u202e") & set(file.read_text("utf-8"))
    drawn = list(figures.iterdir())
    assert drawn and all(ElementTree.parse(it) for it in drawn)

"""The package as it is shipped: its version and its names."""

import re
import runpy
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import making
import pytest
import tomllib

import eigentime_report

PACKAGE = Path(__file__).resolve().parents[1]
REPOSITORY = PACKAGE.parents[1]


def test_the_version_is_that_of_the_workspace() -> None:
    workspace = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())["workspace"]
    assert eigentime_report.__version__ == workspace["package"]["version"]
    try:
        assert distribution("eigentime-report").version == eigentime_report.__version__
    except PackageNotFoundError:
        pytest.skip("skipped: needs the package installed, as `make build` does")


def test_the_examples_of_the_readme_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, name in enumerate(("results", "before", "after")):
        making.folder(
            tmp_path / name,
            calls=[making.Calls("vdso_gettimeofday", 20.0 + 2 * seed, sd=0.2, records=60)],
            sleeps=[making.Sleeps("nanosleep", 1_000_000, 60_000, sd=900)],
            seed=seed,
            run=name,
        )
    monkeypatch.chdir(tmp_path)
    text = (PACKAGE / "README.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        (tmp_path / "example.py").write_text(example)
        runpy.run_path(str(tmp_path / "example.py"))
    said = capsys.readouterr().out
    assert "| vdso\\_gettimeofday <sup>a</sup> | baseline |" in said
    assert "calls/vdso_gettimeofday baseline" in said
    assert "missed: vdso_gettimeofday > +5%: " in said
    assert (tmp_path / "tail.svg").stat().st_size


def test_every_public_name_is_there_and_documented() -> None:
    names = eigentime_report.__all__
    assert names == sorted(names)
    bare = [name for name in names if not getattr(eigentime_report, name).__doc__]
    assert bare == []
    with pytest.raises(AttributeError, match="no attribute 'overhead'"):
        _ = eigentime_report.overhead

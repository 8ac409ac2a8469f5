"""What the package is installed with is under licences that LICENCES.md and deny.toml allow."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
import tomllib
from packaging.requirements import Requirement

PACKAGE = Path(__file__).resolve().parents[1]
REPOSITORY = PACKAGE.parents[1]
NEEDS = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]["dependencies"]

# What Python packages and their parts are under besides what deny.toml allows: permissive, too.
ALSO_ALLOWED = {
    "0BSD",
    "BSD-3-Clause-Open-MPI",
    "BSL-1.0",
    "CC0-1.0",
    "MIT-0",
    "OFL-1.1",
    "PSF-2.0",
    "Python-2.0",
    "Qhull",
}
# What older packages say in words.
CLASSIFIED = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0",
}
LICENCE_FILE = re.compile(r"licen[cs]e|copying|notice", re.IGNORECASE)
# Wherever it stands, somebody has to say what it is about.
COPYLEFT = re.compile(
    r"\b[AL]?GPL-?v?\d|General Public Licen[cs]e|Mozilla Public|\bMPL-", re.IGNORECASE
)


@dataclass(frozen=True)
class Part:
    """A row of LICENCES.md: what a package brings along."""

    names: tuple[str, ...]
    packages: tuple[str, ...]
    licence: str
    meaning: str


def parts() -> tuple[Part, ...]:
    """The rows of the table."""
    rows = re.findall(
        r"^\| (`.*?) \| (.*?) \| (.*?) \| (.*?) ?\|$",
        (PACKAGE / "LICENCES.md").read_text(),
        re.MULTILINE,
    )
    return tuple(
        Part(tuple(re.findall("`(.*?)`", names)), tuple(where.split(", ")), *rest)
        for names, where, *rest in rows
    )


def allowed() -> set[str]:
    """The licences that the project allows, by their names in SPDX."""
    deny = tomllib.loads((REPOSITORY / "deny.toml").read_text())
    return {*deny["licenses"]["allow"], *ALSO_ALLOWED}


# `T` and `F` of SPDX, what binds more first.
STEPS = (
    (r"\(([TF])\)", lambda it: it[1]),
    (r"([TF]) AND ([TF])", lambda it: min(it[1], it[2])),
    (r"(?<!AND )([TF]) OR ([TF])(?! AND)", lambda it: max(it[1], it[2])),
)


def is_allowed(expression: str) -> bool:
    """Is there a choice of licences that are all allowed? An expression of SPDX, or a name."""
    if expression in allowed():
        return True
    licence = r"\b(?!(?:AND|OR)\b)[\w.+-]+(?: WITH [\w.-]+)?"
    truth = re.sub(licence, lambda it: "FT"[it[0] in allowed()], expression)
    truth, before = " ".join(truth.split()), ""
    while truth != before:
        before = truth
        for pattern, value in STEPS:
            truth = re.sub(pattern, value, truth)
    return truth == "T"


def said(of: Distribution) -> str:
    """What it says of its licence: as an expression, by classifiers, or in a word."""
    if expression := of.metadata["License-Expression"]:
        return str(expression)
    classifiers = of.metadata.get_all("Classifier") or []
    words = [it.split(" :: ")[-1] for it in classifiers if it.startswith("License ::")]
    if words := [it for it in words if it != "OSI Approved"]:
        return " AND ".join(CLASSIFIED.get(it, it) for it in words)
    return str(of.metadata["License"] or "nothing")


def faults(of: Distribution, known: Sequence[Part]) -> Iterator[str]:
    """What of a package is under a licence that nobody has allowed, or said anything of."""
    own = [it for it in known if _name(of.name) in it.packages]
    if not is_allowed(said(of)):
        yield f"{of.name} is under {said(of)}"
    for file in of.files or ():
        folder, name = file.parent.name, file.name
        if folder.endswith(".libs"):
            if not any(fnmatch(name, it) for part in own for it in part.names):
                yield f"{of.name} brings {name} along"
        elif folder == "sboms":
            yield from _listed(of, file.read_text(), own)
        elif ".dist-info" in str(file) and LICENCE_FILE.search(name):
            yield from _written(of, file.read_text(encoding="utf-8"), own)


def _listed(of: Distribution, text: str, own: Sequence[Part]) -> Iterator[str]:
    """Parts that a list of them names."""
    for component in json.loads(text)["components"]:
        licences = [
            it.get("expression") or it["license"].get("id") or it["license"]["name"]
            for it in component.get("licenses", ())
        ]
        is_known = any(component["name"] in part.names for part in own)
        if not is_known and not all(map(is_allowed, licences)):
            yield f"{of.name} lists {component['name']}, {' and '.join(licences)}"


def _written(of: Distribution, text: str, own: Sequence[Part]) -> Iterator[str]:
    """Licences that a file of them names, or has the text of."""
    for licence in re.findall(r"^License: (.+)$", text, re.MULTILINE):
        if licence not in {it.licence for it in own} and not is_allowed(licence):
            yield f"{of.name} has something under {licence}"
    explained = any(COPYLEFT.search(f"{it.licence} {it.meaning}") for it in own)
    if COPYLEFT.search(text) and not explained:
        yield f"{of.name} tells of {COPYLEFT.search(text)[0]}"  # type: ignore[index]


def _name(text: str) -> str:
    """As the lock file has it."""
    return text.lower().replace("_", "-")


def needed(requirements: Sequence[str], known: dict[str, Distribution]) -> None:
    """Adds what these need, and what that needs."""
    for text in requirements:
        requirement = Requirement(text)
        name = _name(requirement.name)
        marker = requirement.marker
        if name in known or (marker and not marker.evaluate({"extra": ""})):
            continue
        known[name] = distribution(name)
        needed(known[name].requires or [], known)


@pytest.fixture(scope="module")
def installed() -> dict[str, Distribution]:
    known: dict[str, Distribution] = {}
    needed(NEEDS, known)
    assert len(known) > len(NEEDS)
    return known


def test_all_that_is_installed_is_under_licences_that_are_allowed(
    installed: dict[str, Distribution],
) -> None:
    found = [fault for it in installed.values() for fault in faults(it, parts())]
    assert found == []


def test_the_list_names_what_is_there(installed: dict[str, Distribution]) -> None:
    known = parts()
    assert {it for part in known for it in part.packages} <= {*installed, "eigentime-report"}
    for part in known:
        assert is_allowed(part.licence) or part.meaning, part
    if platform.machine() != "x86_64":
        pytest.skip("skipped: needs x86_64, whose wheels the list is of")
    libraries = {
        file.name
        for of in installed.values()
        for file in of.files or ()
        if file.parent.name.endswith(".libs")
    }
    for part in known:
        for name in part.names:
            if name.endswith("*"):
                assert any(fnmatch(it, name) for it in libraries), name


def test_all_that_is_needed_is_pinned(installed: dict[str, Distribution]) -> None:
    lock = (PACKAGE / "requirements.lock").read_text()
    pinned = set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE))
    assert set(installed) <= pinned
    # Each file by its checksum.
    for entry in re.split(r"^(?=[a-z0-9-]+==)", lock, flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in entry


@pytest.mark.parametrize(
    ("expression", "is_free"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("MIT AND GPL-3.0-only", False),
        ("MIT OR GPL-3.0-only AND GPL-2.0-only", True),
        ("GPL-3.0-only AND (MIT OR Zlib)", False),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("MIT OR GPL-2.0-only AND (MIT OR Zlib)", True),
        ("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only", True),
        ("GPL-3.0-or-later WITH GCC-exception-3.1", False),
        ("the MIT licence", False),
        ("", False),
    ],
)
def test_a_choice_is_a_choice(expression: str, is_free: bool) -> None:
    assert is_allowed(expression) is is_free


FREE = "License-Expression: MIT"


@pytest.mark.parametrize(
    ("metadata", "files", "fault"),
    [
        (FREE, {"x-1.dist-info/licenses/LICENSE": "The MIT License"}, None),
        ("License-Expression: MIT OR GPL-3.0-only", {}, None),
        ("License-Expression: GPL-3.0-only", {}, "x is under GPL-3.0-only"),
        ("License-Expression: MIT AND MPL-2.0", {}, "x is under MIT AND MPL-2.0"),
        (
            "Classifier: License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)",
            {},
            "x is under Mozilla Public License 2.0 (MPL 2.0)",
        ),
        ("License: LGPL", {}, "x is under LGPL"),
        ("Summary: no licence", {}, "x is under nothing"),
        (FREE, {"x.libs/libreadline.so.8": ""}, "x brings libreadline.so.8 along"),
        # It is numpy's that is explained.
        (FREE, {"x.libs/libgfortran.so.5": ""}, "x brings libgfortran.so.5 along"),
        (
            FREE,
            {"x-1.dist-info/LICENSE": "MIT, but y/:\nLicense: EPL-2.0\n"},
            "x has something under EPL-2.0",
        ),
        (
            FREE,
            {"x-1.dist-info/licenses/COPYING": "GNU LESSER GENERAL PUBLIC LICENSE"},
            "x tells of GENERAL PUBLIC LICENSE",
        ),
        (
            FREE,
            {
                "x-1.dist-info/sboms/x.cyclonedx.json": '{"components": [{"name": "y", '
                '"licenses": [{"expression": "(MIT OR Zlib) AND MPL-2.0"}]}]}'
            },
            "x lists y, (MIT OR Zlib) AND MPL-2.0",
        ),
    ],
)
def test_other_licences_are_found(
    tmp_path: Path, metadata: str, files: dict[str, str], fault: str | None
) -> None:
    files = {"x-1.dist-info/METADATA": f"Name: x\nVersion: 1\n{metadata}\n", **files}
    files["x-1.dist-info/RECORD"] = "".join(f"{name},,\n" for name in files)
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = list(faults(Distribution.at(tmp_path / "x-1.dist-info"), parts()))
    assert found == ([fault] if fault else [])

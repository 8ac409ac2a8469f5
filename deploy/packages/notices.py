"""Prints the licences of all crates that are linked into the commands, each text once.

    cargo metadata --format-version 1 --filter-platform TARGET | notices.py CRATE...

CRATE: the crates of the commands.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

NAMES = ("LICENSE", "LICENCE", "COPYING", "UNLICENSE", "NOTICE", "COPYRIGHT")


def linked(metadata, crates):
    """The packages that these crates contain, including themselves."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    open_ends = [key for key, package in packages.items() if package["name"] in crates]
    found = set()
    while open_ends:
        key = open_ends.pop()
        if key in found:
            continue
        found.add(key)
        for dependency in nodes[key]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                open_ends.append(dependency["pkg"])
    return [packages[key] for key in found]


def texts(package):
    """The files that state a package's licence."""
    folder = Path(package["manifest_path"]).parent
    files = (file for file in sorted(folder.iterdir()) if file.is_file())
    return [file for file in files if file.name.upper().startswith(NAMES)]


def main(crates):
    """Prints them, and fails if a package has none and does not name its licence."""
    users, without = defaultdict(set), []
    for package in linked(json.load(sys.stdin), crates):
        if package["source"] is None:
            continue  # The project's own.
        name = f"{package['name']} {package['version']}"
        files = texts(package)
        for file in files:
            users[file.read_text("utf-8", errors="replace").strip()].add(name)
        if not files:
            without.append(f"{name}: {package['license']}, {package['repository']}")
    print("The commands of Eigentime contain these packages, under these licences.\n")
    if without:
        print("Packages that come without a text of their licence:\n")
        print("\n".join(f"  {line}" for line in sorted(without)), "\n")
    for names, text in sorted((sorted(names), text) for text, names in users.items()):
        print("-" * 80, ", ".join(names), "-" * 80, "", text, "", sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Checks that the modules of a Rust crate do not import each other, in all crates of the workspace.

A module may use its parent and its children. Uses among the children of one module must not form a
cycle, however long; what a child uses counts as used by its parent, and a name that a module takes
from elsewhere (`use`, `pub use`) counts as used there.
"""

from pathlib import Path

from layers.source import tokens, without_tests

# A crate that a build script compiles, so that cargo does not list it.
IMAGE = "crates/vdso/image/lib.rs"

# The kinds of targets of `cargo metadata` that are no tests, examples or build scripts.
KINDS = {"lib", "cdylib", "proc-macro", "bin"}

# Tests are exempt.
EXEMPT = {"tests/compare/main.rs"}


def check(workspace, packages):
    """The violations in the crates of `workspace`, one sentence each; `packages` are those of
    `cargo metadata --no-deps`."""
    targets = [target for package in packages for target in package["targets"]]
    roots = {Path(it["src_path"]) for it in targets if KINDS & set(it["kind"])}
    found = []
    for root in sorted(roots | {workspace / IMAGE}):
        name = str(root.relative_to(workspace))
        if name not in EXEMPT:
            found += cycles(name, graph(read(root)))
    return found


def read(root):
    """The modules of the crate whose root is the file `root`, without test modules, by their
    paths: tuples of names."""
    found, folder = {}, root.parent

    def add(module, file):
        kept, of_tests = without_tests(tokens(file.read_text("utf-8")))
        found[module] = kept
        inside = folder.joinpath(*module)
        for name in _declared(kept):
            if name in of_tests:
                continue
            for child in (inside / f"{name}.rs", inside / name / "mod.rs"):
                if child.is_file():
                    add((*module, name), child)

    add((), root)
    return found


def _declared(found):
    """The names of modules in separate files: `mod name;`."""
    texts = [text for _, text, _ in found]
    return [
        texts[at + 1]
        for at in range(len(texts) - 2)
        if texts[at] == "mod" and texts[at + 2] == ";"
    ]


def graph(modules):
    """Which of `modules` use which, as pairs of paths, according to their tokens."""
    paths = {}
    for module, found in modules.items():
        children = {child[-1] for child in modules if child and child[:-1] == module}
        paths[module] = list(_paths(module, found, children))
    taken = {
        module: {name: path for path, name in uses if name is not None and path}
        for module, uses in paths.items()
    }
    return {
        (module, used)
        for module, uses in paths.items()
        for path, _ in uses
        if (used := _owner(path, modules, taken)) != module
    }


def _owner(path, modules, taken):
    """The module that has what `path` names; a name that it only takes from elsewhere is
    followed there."""
    for _ in range(8):
        length = next(n for n in range(len(path), -1, -1) if path[:n] in modules)
        module, rest = path[:length], path[length:]
        target = taken[module].get(rest[0]) if rest else None
        if target is None or target == path:
            return module
        path = (*target, *rest[1:])
    return module


def _paths(module, found, children):
    """The paths into its own crate in a module's tokens: each with the name it gets from a
    `use` at the top of the module, or None."""
    inline, depth, at = [], 0, 0
    while at < len(found):
        kind, text, _ = found[at]
        if text == "{":
            depth += 1
        elif text == "}":
            depth -= 1
            if inline and inline[-1] == depth:
                inline.pop()
        elif text == "mod" and found[at + 2][1] == "{":
            inline.append(depth)
            depth += 1
            at += 3
            continue
        elif text == "use":
            end = next(n for n in range(at, len(found)) if found[n][1] == ";")
            for path, name in _tree(found[at + 1 : end], []):
                if (
                    absolute := _absolute(module, len(inline), path, children)
                ) is not None:
                    yield absolute, (name if depth == 0 else None)
            at = end
            continue
        elif (
            kind == "word"
            and text in ("crate", "super", "self")
            and _follows(found, at)
        ):
            path = [text]
            while _follows(found, at) and found[at + 2][0] == "word":
                path.append(found[at + 2][1])
                at += 2
            if (absolute := _absolute(module, len(inline), path, children)) is not None:
                yield absolute, None
        at += 1


def _follows(found, at):
    return at + 2 < len(found) and found[at + 1][0] == "path"


def _tree(found, base):
    """The paths of a `use` tree, each with the name that it brings in."""
    path, name, at = list(base), None, 0
    while at < len(found):
        kind, text, _ = found[at]
        if text == "{":
            for branch in _branches(found[at + 1 :]):
                yield from _tree(branch, path)
            return
        if text == "as":
            name = found[at + 1][1]
            break
        if text == "*":
            yield path, None
            return
        if kind == "word" and not (text == "self" and path):
            path.append(text)
        at += 1
    if path:
        yield path, name or path[-1]


def _branches(found):
    """What is between the commas, up to the closing brace."""
    depth, branch = 0, []
    for token in found:
        text = token[1]
        if text == "}" and depth == 0:
            break
        depth += {"{": 1, "}": -1}.get(text, 0)
        if text == "," and depth == 0:
            yield branch
            branch = []
        else:
            branch.append(token)
    if branch:
        yield branch


def _absolute(module, inline, path, children):
    """A path from the root of the crate, or None for one that leads out of the crate; `inline`
    modules of the same file are inside `module`, and count as part of it."""
    if path[0] == "crate":
        return tuple(path[1:])
    if path[0] not in ("super", "self"):
        # Of a child, or of another crate.
        return (*module, *path) if path[0] in children and not inline else None
    here = list(module)
    for at, part in enumerate(path):
        if part == "self":
            continue
        if part != "super":
            return (*here, *path[at:])
        if inline:
            inline -= 1
        elif here:
            here.pop()
    return tuple(here)


def cycles(crate, uses):
    """The violations in `uses` (of `graph`), one sentence each."""
    found, edges, siblings = [], {}, set()
    for user, used in uses:
        common = next(
            n
            for n in range(min(len(user), len(used)) + 1)
            if n == min(len(user), len(used)) or user[n] != used[n]
        )
        if common < len(user) and common < len(used):
            siblings.add((user[: common + 1], used[: common + 1], user, used))
            edges.setdefault(user[: common + 1], set()).add(used[: common + 1])
    for user, used, at, to in sorted(siblings):
        if _reaches(edges, used, user):
            at, to = "::".join(at), "::".join(to)
            found.append(f"{crate}: {at} must not use {to}, which uses it in turn")
    return found


def _reaches(edges, start, goal):
    seen, left = set(), [start]
    while left:
        module = left.pop()
        if module == goal:
            return True
        if module not in seen:
            seen.add(module)
            left += edges.get(module, ())
    return False


def self_test():
    """Fails unless `graph` and `cycles` find exactly what they must."""
    # The modules of a crate by path, with their contents; and the violations in them.
    both = [
        "it: a must not use b, which uses it in turn",
        "it: b must not use a, which uses it in turn",
    ]
    cases = [
        ("one way", {"a": "use super::b;", "b": ""}, []),
        ("both ways", {"a": "use super::b;", "b": "use crate::a::X;"}, both),
        (
            "in an expression",
            {"a": "fn f() { super::b::g() }", "b": "use crate::{a::X};"},
            both,
        ),
        (
            "from an inline module",
            {"a": "mod m { use super::super::b; }", "b": "use super::a;"},
            both,
        ),
        (
            "in an inline module",
            {"a": "mod m { use super::b; }", "b": "use super::a;"},
            [],
        ),
        (
            "through the parent",
            {"": "pub use b::X as Y;", "a": "use crate::Y;", "b": "use super::a;"},
            both,
        ),
        (
            "of another crate",
            {"": "pub use other::b::Y;", "a": "use crate::Y;", "b": "use super::a;"},
            [],
        ),
        (
            "a circle of three",
            {"a": "use super::b;", "b": "use super::c;", "c": "use super::a;"},
            [
                "it: a must not use b, which uses it in turn",
                "it: b must not use c, which uses it in turn",
                "it: c must not use a, which uses it in turn",
            ],
        ),
        (
            "by their children",
            {"a": "", "a::x": "use crate::b;", "b": "use super::a::y::F;", "a::y": ""},
            [
                "it: a::x must not use b, which uses it in turn",
                "it: b must not use a::y, which uses it in turn",
            ],
        ),
        (
            "parent and child",
            {"a": "use self::x::F; mod x;", "a::x": "use super::G;"},
            [],
        ),
        (
            "in comments and strings",
            {"a": '// crate::b\n"crate::b"', "b": "use super::a;"},
            [],
        ),
        (
            "in tests",
            {"a": "#[cfg(test)] mod tests { use crate::b; }", "b": "use super::a;"},
            [],
        ),
    ]

    def uses(crate):
        files = {
            tuple(filter(None, name.split("::"))): text for name, text in crate.items()
        }
        return graph(
            {(): []}
            | {at: without_tests(tokens(text))[0] for at, text in files.items()}
        )

    return [
        f"self-test, {case}: expected {expected}, found {found}"
        for case, crate, expected in cases
        if (found := cycles("it", uses(crate))) != expected
    ]

"""Checks that what is known of a processor architecture stands in modules that are called `arch`.

Comments and tests are exempt.
"""

import re

from layers.modules import ROOTS as ALL_ROOTS
from layers.modules import read
from layers.source import tokens, without_tests

CRATES = ("timeline", "calls", "vdso", "vdso image", "supervisor")

# What is looked for in the text of a file whose tokens are parted by single spaces.
KNOWLEDGE = {
    "target_arch": r"\btarget_arch\b",
    "registers": r"\b(orig_)?[re](ax|bx|cx|dx|si|di|bp|sp|ip|flags)\b|\br(8|9|1[0-5])\b",
    "instructions": (
        r"\b(naked_|global_)?asm !|\biced_x86\b|\barch :: (x86_64|aarch64)\b"
        r"|\[ 0x[0-9a-f]{2} , 0x[0-9a-f]{2}\b|\b0f05\b|\b0x0?50f\b"
    ),
    "AUDIT_ARCH_": r"\bAUDIT_ARCH_\w+",
    "call numbers": r"\brow \( \d+|\bNr \( \d+|\b(nr|number|sysno) (:|=|==) \d+|\bsyscall\d? \( \d+",
    "__vdso_": r"__vdso_\w+",
}

# The files that are not clean yet, with what they still know. An entry that is not needed any more
# is refused, so that the table can only become shorter.
EXCEPTIONS = {
    "crates/supervisor/src/host.rs": {"instructions"},
    "crates/supervisor/src/tracer/attach/vdso.rs": {"instructions"},
    "crates/supervisor/src/tracer/bootstrap.rs": {"instructions", "registers"},
    "crates/supervisor/src/tracer/detach.rs": {"registers"},
    "crates/supervisor/src/tracer/rewrite/code.rs": {"instructions"},
    "crates/supervisor/src/tracer/rewrite/patch.rs": {"instructions"},
    "crates/vdso/image/exports.rs": {"__vdso_", "instructions", "registers"},
    "crates/vdso/src/layout.rs": {"__vdso_", "registers"},
}


def check(workspace):
    """What is wrong in the crates of `workspace`, one sentence each."""
    known = {}
    for crate in CRATES:
        root = workspace / ALL_ROOTS[crate]
        for module, found in read(root).items():
            if "arch" not in module:
                known[_file(workspace, root, module)] = kinds(found)
    build = workspace / "crates/vdso/build.rs"
    known[str(build.relative_to(workspace))] = kinds(
        without_tests(tokens(build.read_text("utf-8")))[0]
    )
    return compare(known, EXCEPTIONS)


def _file(workspace, root, module):
    inside = root.parent.joinpath(*module)
    choices = (inside.with_suffix(".rs"), inside / "mod.rs") if module else (root,)
    return str(next(file for file in choices if file.is_file()).relative_to(workspace))


def kinds(found):
    """What `tokens` know of an architecture: keys of KNOWLEDGE, with the first line of each."""
    text, lines = "", []
    for _, part, line in found:
        lines.append((len(text), line))
        text += part + " "
    known = {}
    for kind, pattern in KNOWLEDGE.items():
        if (match := re.search(pattern, text)) is not None:
            known[kind] = max(line for at, line in lines if at <= match.start())
    return known


def compare(known, exceptions):
    """What is wrong with what files know, apart from `exceptions`, one sentence each."""
    found = []
    for file, lines in sorted(known.items()):
        for kind, line in sorted(lines.items()):
            if kind not in exceptions.get(file, ()):
                found.append(
                    f"{file}:{line}: knows an architecture ({kind}) outside `arch`"
                )
    for file, allowed in sorted(exceptions.items()):
        for kind in sorted(allowed - set(known.get(file, ()))):
            found.append(f"{file}: has no {kind} any more: remove it from EXCEPTIONS")
    return found


def self_test():
    """Fails unless `kinds` and `compare` find what they must and nothing else."""
    cases = [
        ('#[cfg(target_arch = "x86_64")] fn f() {}', {"target_arch"}),
        ("let to = registers.orig_rax;", {"registers"}),
        ('asm!("syscall", in("rdi") to);', {"instructions", "registers"}),
        ("use iced_x86::Decoder;", {"instructions"}),
        ("code == [0x0f, 0x05]", {"instructions"}),
        ("const ARCH: u32 = AUDIT_ARCH_X86_64;", {"AUDIT_ARCH_"}),
        ('row(202, "futex")', {"call numbers"}),
        ("const CLOSE: Nr = Nr(3);", {"call numbers"}),
        ("syscall(39)", {"call numbers"}),
        ('b"__vdso_getcpu\\0"', {"__vdso_"}),
        ("// rax, target_arch and __vdso_time\n/* rip /* rsp */ rbp */", set()),
        ("#[cfg(test)]\nmod tests { fn f() { rax; } }", set()),
        ("#[test]\nfn f() { rax; }", set()),
        ("call.nr == Nr(NANOSLEEP); syscall(nr, [0; 6])", set()),
    ]
    wrong = [
        f"self-test, {source!r}: expected {expected}, found {set(found)}"
        for source, expected in cases
        if set(found := kinds(without_tests(tokens(source))[0])) != expected
    ]
    comparisons = [
        ({"a.rs": {}}, {}, []),
        ({"a.rs": {"registers": 3}}, {"a.rs": {"registers"}}, []),
        (
            {"a.rs": {"registers": 3}},
            {},
            ["a.rs:3: knows an architecture (registers) outside `arch`"],
        ),
        (
            {"a.rs": {}},
            {"a.rs": {"registers"}},
            ["a.rs: has no registers any more: remove it from EXCEPTIONS"],
        ),
        (
            {},
            {"a.rs": {"registers"}},
            ["a.rs: has no registers any more: remove it from EXCEPTIONS"],
        ),
    ]
    return wrong + [
        f"self-test, {known} but {exceptions}: expected {expected}, found {found}"
        for known, exceptions, expected in comparisons
        if (found := compare(known, exceptions)) != expected
    ]

"""Checks that knowledge of a processor architecture is confined to modules called `arch`.

Comments and tests are exempt.
"""

import re

from layers.modules import IMAGE, read
from layers.source import tokens, without_tests

# The crates to check, by their root files.
ROOTS = (
    "crates/timeline/src/lib.rs",
    "crates/calls/src/lib.rs",
    "crates/vdso/src/lib.rs",
    IMAGE,
    "crates/supervisor/src/lib.rs",
    "crates/checkpoint/src/lib.rs",
    "crates/container/src/lib.rs",
    "crates/clock/src/lib.rs",
    "crates/preload/src/lib.rs",
    "crates/conformance/src/lib.rs",
    "crates/measure/src/lib.rs",
)

# Patterns for the text of a file whose tokens are separated by single spaces.
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
    # The length of an array does not count.
    "page size": r"(?<!; )\b(4096|0x1000)(?![0-9a-f])|\b0xfff(?![0-9a-f])",
    # A boundary above 2^36, or the last byte before one.
    "address limits": r"\b0x[0-9a-f]{7,13}(000|fff)(?![0-9a-f])|\b1(u64|usize)? < < (39|4[0-9]|5[0-9])\b",
}

# Files besides those of the crates' modules.
OTHERS = ("crates/vdso/build.rs", "crates/vdso/image/image.lds")


def check(workspace):
    """The violations in the crates of `workspace`, one sentence each."""
    files = {}
    for root in ROOTS:
        for module, found in read(workspace / root).items():
            if "arch" not in module:
                files[_file(workspace, workspace / root, module)] = found
    for name in OTHERS:
        text = (workspace / name).read_text("utf-8")
        files[name] = without_tests(tokens(text))[0]
    return [
        f"{name}:{line}: knows an architecture ({kind}) outside `arch`"
        for name, found in sorted(files.items())
        for kind, line in sorted(kinds(found).items())
    ]


def _file(workspace, root, module):
    inside = root.parent.joinpath(*module)
    choices = (inside.with_suffix(".rs"), inside / "mod.rs") if module else (root,)
    return str(next(file for file in choices if file.is_file()).relative_to(workspace))


def kinds(found):
    """What `tokens` know of an architecture: keys of KNOWLEDGE, with the first line of each."""
    text, lines = "", []
    for sort, part, line in found:
        lines.append((len(text), line))
        text += (part.replace("_", "") if sort == "number" else part) + " "
    known = {}
    for kind, pattern in KNOWLEDGE.items():
        if (match := re.search(pattern, text)) is not None:
            known[kind] = max(line for at, line in lines if at <= match.start())
    return known


def self_test():
    """Fails unless `kinds` finds exactly what it must."""
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
        ("const PAGE: u64 = 4_096;", {"page size"}),
        ("at & !0xfffu64", {"page size"}),
        ("end: 0x7fff_ffff_f000", {"address limits"}),
        ("(1 << 47) - 1", {"address limits"}),
        ("[0; 4096]; 0x1000_0000; 0xffff; 1 << 32; 0xcbf2_9ce4_8422_2325", set()),
        ("// rax, target_arch and __vdso_time\n/* rip /* rsp */ rbp */", set()),
        ("#[cfg(test)]\nmod tests { fn f() { rax; } }", set()),
        ("#[test]\nfn f() { rax; }", set()),
        ("call.nr == Nr(NANOSLEEP); syscall(nr, [0; 6])", set()),
    ]
    return [
        f"self-test, {source!r}: expected {expected}, found {set(found)}"
        for source, expected in cases
        if set(found := kinds(without_tests(tokens(source))[0])) != expected
    ]

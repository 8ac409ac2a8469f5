"""Checks that knowledge of a processor architecture is confined to modules called `arch`, in all crates
of the workspace.

Comments and tests are exempt.
"""

import re
from pathlib import Path

from layers.modules import IMAGE, read
from layers.source import tokens, without_tests

# A file besides those of the crates' modules.
LINKER_SCRIPT = "crates/vdso/image/image.lds"

# Patterns for the text of a file whose tokens are separated by single spaces.
KNOWLEDGE = {
    "target_arch": r"\btarget_arch\b",
    "registers": r"\b(orig_)?[re](ax|bx|cx|dx|si|di|bp|sp|ip|flags)\b|\br(8|9|1[0-5])\b",
    "instructions": (
        r"\b(naked_|global_)?asm !|\biced_x86\b|\barch :: (x86_64|aarch64)\b"
        r"|\[ 0x[0-9a-f]{2} , 0x[0-9a-f]{2}\b|\b0f05\b|\b0x0?50f\b"
    ),
    "AUDIT_ARCH_": r"\bAUDIT_ARCH_\w+",
    # A `number` that is 0 or mutable is a count.
    "call numbers": (
        r"\brow \( \d+|\bNr \( \d+|\b(nr|sysno) (:|=|==) \d+|\bsyscall\d? \( \d+"
        r"|(?<!\bmut )\bnumber (:|=|==) [1-9]"
    ),
    "__vdso_": r"__vdso_\w+",
    # The length of an array does not count.
    "page size": (
        r"(?<!; )\b(4096|0x1000)(?![0-9a-f])|\b0xfff(?![0-9a-f])"
        r"|\b(?i:(\w+_)?page(_(size|shift|mask))?) (: \w+ )?= (! )?[1-9]"
    ),
    # A boundary above 2^36, or the last byte before one. A shift by 53 is of a floating-point number.
    "address limits": (
        r"\b0x[0-9a-f]{7,13}(000|fff)(?![0-9a-f])"
        r"|(?<!: i64 = )\b1(u64|usize)? < < (39|4[0-9]|5[0-24-9])\b"
    ),
}

# A constant with this value is no page size, unless its name says so.
COUNT = r"\bconst (?!\w*PAGE)\w+ : \w+ = (4096|0x1000) ;"


def check(workspace, packages):
    """The violations in the crates of `workspace`, one sentence each; `packages` are those of
    `cargo metadata --no-deps`."""
    files = {}
    for root in roots(workspace, packages):
        for module, found in read(root).items():
            if "arch" not in module:
                files[_file(workspace, root, module)] = found
    text = (workspace / LINKER_SCRIPT).read_text("utf-8")
    files[LINKER_SCRIPT] = without_tests(tokens(text))[0]
    return [
        f"{name}:{line}: knows an architecture ({kind}) outside `arch`"
        for name, found in sorted(files.items())
        for kind, line in sorted(kinds(found).items())
    ]


def roots(workspace, packages):
    """The root files of all crates but those of tests, with their examples and build scripts."""
    targets = [
        target
        for package in packages
        if not Path(package["manifest_path"]).is_relative_to(workspace / "tests")
        for target in package["targets"]
    ]
    found = {Path(it["src_path"]) for it in targets if it["kind"] != ["test"]}
    return found | {workspace / IMAGE}


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
    text = re.sub(COUNT, lambda count: " " * len(count.group()), text)
    known = {}
    for kind, pattern in KNOWLEDGE.items():
        if (match := re.search(pattern, text)) is not None:
            known[kind] = max(line for at, line in lines if at <= match.start())
    return known


def self_test():
    """Fails unless `kinds` and `roots` find exactly what they must."""
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
        ("Call { number: 35 }", {"call numbers"}),
        ('b"__vdso_getcpu\\0"', {"__vdso_"}),
        ("const PAGE: u64 = 4_096;", {"page size"}),
        ("const GUEST_PAGE: u64 = 1 << 12;", {"page size"}),
        ("let page_size = 16_384;", {"page size"}),
        ("let length = 4096;", {"page size"}),
        ("mmap(0, 4096)", {"page size"}),
        ("at & !0xfffu64", {"page size"}),
        ("end: 0x7fff_ffff_f000", {"address limits"}),
        ("(1 << 47) - 1", {"address limits"}),
        ("const MOST_EVENTS: usize = 4_096; const PAGES: usize = 8;", set()),
        ("const NEVER: i64 = 1 << 40; bits as f64 / (1u64 << 53) as f64", set()),
        ("let mut number = 1; Train { number: 0 }", set()),
        ("[0; 4096]; 0x1000_0000; 0xffff; 1 << 32; 0xcbf2_9ce4_8422_2325", set()),
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

    def package(folder, *targets):
        targets = [
            {"kind": [kind], "src_path": f"/w/{folder}/{file}"}
            for kind, file in targets
        ]
        return {"manifest_path": f"/w/{folder}/Cargo.toml", "targets": targets}

    packages = [
        package("crates/new", ("lib", "src/lib.rs"), ("test", "tests/it.rs")),
        package("bench/new", ("bin", "src/main.rs"), ("custom-build", "build.rs")),
        package("tests/harness", ("lib", "src/lib.rs")),
    ]
    files = ("crates/new/src/lib.rs", "bench/new/src/main.rs", "bench/new/build.rs")
    expected = {Path("/w", file) for file in (*files, IMAGE)}
    if (found := roots(Path("/w"), packages)) != expected:
        wrong.append(f"self-test, roots: expected {expected}, found {found}")
    return wrong

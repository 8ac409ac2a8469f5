//! Builds the freestanding image: compiles three crates with rustc, and links once with the
//! system's linker, the script `image/image.lds` and that of the architecture.

#[path = "../timeline/src/mark.rs"]
mod mark;
#[path = "image/arch/target.rs"]
mod target;

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection, ObjectSymbol};

/// The number of bytes by which the image's code is moved.
const PADDING: &str = "EIGENTIME_IMAGE_PADDING";

/// Symbols of the image that the supervisor must know.
const SYMBOLS: [(&str, &str, &str); 16] = [
    (
        "et_code",
        "CODE",
        "Start of its code, at the start of a page; before it is what describes it.",
    ),
    (
        "et_leave_flags",
        "LEAVE_FLAGS",
        "Where a redirected call restores the flags; a step would stay in them.",
    ),
    (
        "et_enter_flags",
        "ENTER_FLAGS",
        "Where a redirected call saves the flags, which a step would change.",
    ),
    ("et_enter", "ENTER", "Where trapped calls are redirected to."),
    (
        "et_interrupted",
        "INTERRUPTED",
        "Where a redirected wait goes on that was interrupted before it began.",
    ),
    ("et_entered", "ENTERED", "Where a redirected call goes on that was not."),
    ("et_rewritten", "REWRITTEN", "Where rewritten sites jump to."),
    (
        "et_rewritten_flags",
        "REWRITTEN_FLAGS",
        "Where a call from a rewritten site saves the flags.",
    ),
    ("et_pass_flags", "PASS_FLAGS", "Where a call that is made as it is restores the flags."),
    (
        "et_syscall_return",
        "SYSCALL_RETURN",
        "The address after the only `syscall` instruction that the filter exempts.",
    ),
    ("et_user_begin", "USER_BEGIN", "Start of the code that touches memory named by the program."),
    ("et_user_end", "USER_END", "End of the code that touches memory named by the program."),
    ("et_user_fault", "USER_FAULT", "Where to go on after a fault between the two."),
    ("et_boot", "BOOT", "Sets up the pages in a fresh program."),
    (
        "et_raw_clock_gettime",
        "RAW_CLOCK_GETTIME",
        "Reads a clock by a system call, where the kernel's vDSO cannot.",
    ),
    ("et_missing", "MISSING", "Says ENOSYS, for functions the kernel does not offer."),
];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for path in ["image", "src/layout", "../timeline/src", "../calls/src"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    let (target, page) = target::of(&arch);
    let compile = |name: &str, source: &str, kind: &str, uses: &[(&str, &PathBuf)]| {
        compile(&out, target, name, source, kind, uses)
    };
    let timeline = compile("eigentime_timeline", "../timeline/src/lib.rs", "rlib", &[]);
    let uses = [("eigentime_timeline", &timeline)];
    let calls = compile("eigentime_calls", "../calls/src/lib.rs", "rlib", &uses);
    let uses = [uses[0], ("eigentime_calls", &calls)];
    let image = compile("image", "image/lib.rs", "staticlib", &uses);
    // Moves everything in the image, so that tests get a different image that does the same.
    println!("cargo::rerun-if-env-changed={PADDING}");
    let padding = env::var(PADDING).unwrap_or_else(|_| "0".to_owned());
    let linked = out.join("image-symbols.so");
    let mut link = Command::new(env::var_os("LD").unwrap_or_else(|| "ld".into()));
    link.args(["-shared", "-soname=linux-vdso.so.1", "--hash-style=both", "--build-id=sha1"])
        .args(["--eh-frame-hdr", "-Bsymbolic", "-z", "noexecstack", "-z"])
        .arg(format!("max-page-size={page}"))
        .arg(format!("--defsym=et_padding={padding}"))
        .args(["--gc-sections", "--no-undefined", "-T", "image/image.lds"])
        .arg(format!("image/arch/{arch}.lds"))
        .arg("-o")
        .arg(&linked)
        .arg(&image);
    run(&mut link);
    embed(&fs::read(&linked).expect("the linker wrote the image"), &out);
}

/// Compiles one crate for the bare target and returns the path of the result.
fn compile(
    out: &Path,
    target: &str,
    name: &str,
    source: &str,
    kind: &str,
    uses: &[(&str, &PathBuf)],
) -> PathBuf {
    let file = match kind {
        "rlib" => out.join(format!("lib{name}.rlib")),
        _ => out.join(format!("lib{name}.a")),
    };
    let mut rustc = Command::new(env::var_os("RUSTC").expect("cargo sets RUSTC"));
    rustc
        .args(["--edition=2024", "--crate-name", name, "--crate-type", kind, source])
        .args(["--target", target, "-Crelocation-model=pic"])
        .args(["-Copt-level=3", "-Cpanic=abort", "-Ccodegen-units=1", "-Cforce-unwind-tables=yes"])
        .args(["-Cforce-frame-pointers=no", "-Coverflow-checks=no", "-Cdebug-assertions=no"])
        // Optimizes the image as a whole, so that calls between crates need no global offset table.
        .args(if kind == "staticlib" { &["-Clto=fat"][..] } else { &[] })
        .arg("-o")
        .arg(&file);
    for (dependency, path) in uses {
        rustc.arg("--extern").arg(format!("{dependency}={}", path.display()));
    }
    rustc.arg("-L").arg(out);
    run(&mut rustc);
    file
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(
        status.success(),
        "{command:?} failed ({status}); the image needs that target of rustup and a linker"
    );
}

/// Writes the part of the image that is mapped, and its addresses.
fn embed(linked: &[u8], out: &Path) {
    let file = object::File::parse(linked).expect("the image is an ELF object");
    let mut mapped_end = 0;
    for section in file.sections() {
        let is_relocation = section.name().is_ok_and(|name| name.starts_with(".rel"));
        assert!(!(is_relocation && section.size() > 0), "the image must not need relocation");
        let flags = section.flags();
        let object::SectionFlags::Elf { sh_flags } = flags else { continue };
        if sh_flags & u64::from(object::elf::SHF_ALLOC) != 0 {
            assert!(
                sh_flags & u64::from(object::elf::SHF_WRITE) == 0
                    || section.name() == Ok(".dynamic"),
                "the image must not hold writable data: {:?}",
                section.name()
            );
            if let Some((start, size)) = section.file_range() {
                assert_eq!(start, section.address(), "the image is mapped as it lies in the file");
                mapped_end = mapped_end.max(start + size);
            }
        }
    }
    let mut image = linked[..mapped_end as usize].to_vec();
    // The section headers are not mapped: the ELF header must not point to them
    // (e_shoff, and e_shnum with e_shstrndx).
    image[0x28..0x30].fill(0);
    image[0x3c..0x40].fill(0);
    image[mark::OFFSET..][..8].copy_from_slice(&mark::WORD.to_ne_bytes());
    fs::write(out.join("image.so"), &image).expect("OUT_DIR is writable");

    let mut symbols = String::new();
    let mut offsets = Vec::new();
    for (index, (name, constant, doc)) in SYMBOLS.into_iter().enumerate() {
        let symbol = file
            .symbols()
            .find(|symbol| symbol.name() == Ok(name))
            .unwrap_or_else(|| panic!("the image lacks {name}"));
        offsets.push((name, symbol.address() as usize));
        writeln!(symbols, "/// {doc}\npub const {constant}: Symbol = Symbol({index});")
            .expect("a string takes text");
    }
    writeln!(
        symbols,
        "/// Where they stand in this image.\npub const OFFSETS: [(&str, usize); {}] = {offsets:#?};",
        offsets.len()
    )
    .expect("a string takes text");
    let exports: Vec<_> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.address() != 0)
        .filter_map(|symbol| Some((symbol.name().ok()?, symbol.address() as usize)))
        .collect();
    writeln!(
        symbols,
        "/// The functions that programs find by name.\n\
         pub const EXPORTS: [(&str, usize); {}] = {exports:#?};",
        exports.len()
    )
    .expect("a string takes text");
    let build_id = file.build_id().ok().flatten().expect("the linker was told to write one");
    writeln!(
        symbols,
        "/// Tells it from every other image.\npub const BUILD_ID: [u8; {}] = {build_id:?};",
        build_id.len()
    )
    .expect("a string takes text");
    fs::write(out.join("symbols.rs"), symbols).expect("OUT_DIR is writable");
}

//! Programs that cannot be given a timeline are refused with a reason, and never run unnoticed in
//! the host's time.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::time::ClockId;

use crate::command::{Finished, User, run};
use crate::named::place::Place;
use crate::needs::{Need, exits_with, is_root};
use crate::programs::{Build, Program};
use crate::session::host_ns;
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, STUCK};
use crate::workspace;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let runs_32_bit = Need::Other(
        program_32_bit().is_ok_and(|path| exits_with(&mut Command::new(path), ANSWER.into())),
        "a kernel that runs 32-bit programs".to_owned(),
    );
    let needs = [runs_32_bit];
    suite.test("refusals::program_of_32_bits", &needs, program_of_32_bits);
    suite.test("refusals::child_of_32_bits", &needs, child_of_32_bits);
    let needs = [needs[0].clone(), Need::Program(Build::Dynamic)];
    suite.test("refusals::gate_of_32_bits", &needs, gate_of_32_bits);
    let needs = [Need::Program(Build::Static), Need::Root, Need::Tool("setpriv")];
    suite.test("refusals::set_user_id_program", &needs, set_user_id_program);
    suite.test("refusals::set_user_id_child", &needs, set_user_id_child);
    let needs = [Need::Program(Build::Static), Need::Root, Need::Tool("setpriv")];
    suite.test("refusals::unreadable_program", &needs, unreadable_program);
    let needs = [Need::Tool("prlimit")];
    suite.test("refusals::no_descriptors_left", &needs, no_descriptors_left);
    suite.test("refusals::few_descriptors", &[], few_descriptors);
}

/// The exit status of the 32-bit program if it runs.
const ANSWER: u8 = 7;

/// A 32-bit ELF file of one segment, whose code is `exit(ANSWER)`.
pub fn program_32_bit() -> Result<PathBuf, Broken> {
    const BASE: u32 = 0x0804_8000;
    const HEADERS: u32 = 52 + 32;
    // mov eax, 1 (exit); mov ebx, ANSWER; int 0x80
    let code = [0xb8, 1, 0, 0, 0, 0xbb, ANSWER, 0, 0, 0, 0xcd, 0x80];
    let size = HEADERS + code.len() as u32;
    let mut file = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut half = |values: &[u16]| values.iter().for_each(|v| file.extend(v.to_le_bytes()));
    half(&[2, 3]); // ET_EXEC, EM_386
    let mut word = |values: &[u32]| values.iter().for_each(|v| file.extend(v.to_le_bytes()));
    word(&[1, BASE + HEADERS, 52, 0, 0]); // version, entry, program headers, none, flags
    let mut half = |values: &[u16]| values.iter().for_each(|v| file.extend(v.to_le_bytes()));
    half(&[52, 32, 1, 0, 0, 0]); // sizes and counts of headers
    let mut word = |values: &[u32]| values.iter().for_each(|v| file.extend(v.to_le_bytes()));
    word(&[1, 0, BASE, BASE, size, size, 5, 0x1000]); // PT_LOAD, readable and executable
    file.extend(code);
    let path = workspace::scratch()?.join("program-32");
    fs::write(&path, file)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

fn names_32_bits(ended: &Finished) -> Outcome {
    ended.ensure(ended.errors.contains("32"), "no note that it is a 32-bit program")?;
    Ok(())
}

fn program_of_32_bits() -> Outcome {
    let mut command = User::Myself.eigentime(&["--date", FUTURE.0])?;
    let ended = run(command.arg(program_32_bit()?), STUCK)?;
    names_32_bits(&ended)?;
    ended.expect_code(126)?;
    Ok(())
}

fn child_of_32_bits() -> Outcome {
    let mut command = User::Myself.eigentime(&["--date", FUTURE.0])?;
    command.args(["sh", "-c", r#""$0"; echo status=$?"#]).arg(program_32_bit()?);
    let ended = run(&mut command, STUCK)?;
    names_32_bits(&ended)?;
    ended.ensure(ended.number::<u8>("status")? != ANSWER, "it ran in the host's time")?;
    Ok(())
}

/// The call may fail or end the program, but not show the host's clock.
fn gate_of_32_bits() -> Outcome {
    let mut command = User::Myself.eigentime(&["--date", FUTURE.0])?;
    let ended = run(command.arg(Program::Int80.path(Build::Dynamic)), STUCK)?;
    let host_s = host_ns(ClockId::Realtime) / 1_000_000_000;
    if let Ok(shown) = ended.number::<i64>("time") {
        // 32-bit seconds, whose range the year 2100 exceeds.
        ended.ensure((i128::from(shown) - host_s).abs() > 86_400, "it showed the host's clock")?;
    }
    Ok(())
}

/// A copy of a static program that belongs to root and runs as root.
fn set_user_id_copy() -> Result<PathBuf, Broken> {
    debug_assert!(is_root());
    let path = workspace::scratch()?.join("set-user-id");
    workspace::copy_program(&Program::Inherit.path(Build::Static), &path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4755))?;
    Ok(path)
}

fn names_set_user_id(ended: &Finished) -> Outcome {
    let text = ended.errors.to_lowercase();
    ended.ensure(
        ["set-user-id", "setuid", "set-uid"].iter().any(|word| text.contains(word)),
        "no note about the set-user-ID program",
    )?;
    Ok(())
}

fn set_user_id_program() -> Outcome {
    let mut command = User::Nobody.eigentime(&["--date", FUTURE.0])?;
    command.arg(set_user_id_copy()?).arg("/dev/null");
    names_set_user_id(&run(&mut command, STUCK)?)
}

fn set_user_id_child() -> Outcome {
    let mut command = User::Nobody.eigentime(&["--date", FUTURE.0])?;
    command.args(["sh", "-c", r#""$0" /dev/null; true"#]).arg(set_user_id_copy()?);
    names_set_user_id(&run(&mut command, STUCK)?)
}

/// Admitting a program takes three descriptors, which are closed again before it begins.
fn no_descriptors_left() -> Outcome {
    for options in [&["--date", FUTURE.0][..], &["--debuggable"]] {
        for (limit, reason) in [(3, "sockets"), (4, "sockets"), (5, "receive"), (6, "")] {
            let mut command = User::Myself.eigentime(options)?;
            command.args(["prlimit", &format!("--nofile={limit}:{limit}"), "echo", "it runs"]);
            let ended = run(&mut command, STUCK)?;
            if reason.is_empty() {
                ended.expect_code(0)?;
                continue;
            }
            ended.expect_code(126)?;
            ended.ensure(ended.lines.is_empty(), "the program ran")?;
            for word in ["echo is not run", reason, "three descriptors must be free", "ulimit -n"] {
                ended.ensure(ended.errors.contains(word), format_args!("no word on {word}"))?;
            }
        }
    }
    Ok(())
}

/// A program that its user may execute but not read: only root can inspect it, so it cannot be
/// prepared. It must not run on in the host's time.
fn unreadable_program() -> Outcome {
    let path = workspace::scratch()?.join("unreadable");
    workspace::copy_program(&Program::Inherit.path(Build::Static), &path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o711))?;
    let mut command = User::Nobody.eigentime(&["--date", FUTURE.0])?;
    let ended = run(command.arg(&path).arg("/dev/null"), STUCK)?;
    ended.ensure(ended.errors.contains("not read"), "no word on why it is refused")?;
    ended.ensure(ended.lines.is_empty(), "the program ran")?;
    ended.expect_code(126)?;
    Ok(())
}

/// The message states how many descriptors must be free for its own needs; with more, it starts.
fn few_descriptors() -> Outcome {
    const NEEDED: usize = 8;
    let place = Place::new()?;
    let run_limited = |free: usize, words: &str| -> Result<Finished, Broken> {
        let script = format!("ulimit -n {}; exec \"$0\" {words}", 3 + free);
        run(place.outside("sh").args(["-c", &script]).arg(workspace::binary()), STUCK)
    };
    let starts = ["--rate 10", "--skip-idle", "--debuggable", "--timeline x"];
    let starts = starts.map(|options| format!("run {options} -- true"));
    for words in starts.iter().map(String::as_str).chain(["attach --pid $$"]) {
        // With none, not even its libraries are loaded.
        for free in 1..NEEDED {
            let ended = run_limited(free, words)?;
            ended.expect_code(125)?;
            for word in ["needs 8 free descriptors", "ulimit -n"] {
                ended.ensure(ended.errors.contains(word), format_args!("no word on {word}"))?;
            }
        }
    }
    for words in &starts {
        // Others may be open that the tests have not opened.
        run_limited(2 * NEEDED, words)?.expect_code(0)?;
    }
    place.remove("x")
}

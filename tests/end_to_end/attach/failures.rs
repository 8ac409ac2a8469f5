//! A failure midway is undone: the process keeps what it had, and runs on.

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::endless::{check_woken, endless_partner};
use super::languages::start_in_c;
use super::moves::{Outside, Partner, wait_until, wait_until_blocked};
use super::place::Place;
use crate::ensure;
use crate::needs::Need;
use crate::processes::status_field;
use crate::programs::Build;
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::FUTURE;

const NEEDS: [Need; 1] = [Need::Program(Build::Dynamic)];
const PAGE: u64 = 4096;

/// The memory, in pages, that the process may still take: it covers more and more of what attaching
/// needs, so that every step fails once. With the last value it succeeds.
const ROOMS: [u64; 9] = [0, 4, 8, 9, 10, 12, 16, 24, 4096];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (name, spare) in [("none", 0), ("one", 1), ("two", 2)] {
        suite.test(format!("attach::failures::descriptors::{name}"), &NEEDS, move || {
            descriptors(spare)
        });
    }
    suite.test("attach::failures::memory", &NEEDS, memory);
    suite.test("attach::failures::waits_go_on", &NEEDS, waits_go_on);
}

fn limit(pid: u32, resource: Resource, most: Option<u64>) -> Outcome {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let maximum = getrlimit(resource).maximum;
    prlimit(number, resource, Rlimit { current: most, maximum })?;
    Ok(())
}

/// Fails to attach it, and checks that it is unchanged.
fn fails(place: &Place, pid: u32, named: &str) -> Outcome {
    let before = Outside::of(pid)?;
    let ended = place.attach(pid, &["--date", FUTURE.0])?;
    ended.expect_code(125)?;
    ended.ensure(
        ended.errors.contains("goes on as before") && ended.errors.contains(named),
        format_args!("it does not say {named:?}"),
    )?;
    wait_until("no supervisor is left", || place.supervisors().is_empty())?;
    before.ensure_unchanged(pid)
}

/// Leaves a process this many spare descriptors. The limit is on their numbers, and the lowest are
/// taken first.
fn spare_descriptors(pid: u32, spare: usize) -> Outcome {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd"))?.flatten();
    let taken: Vec<u64> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let first_forbidden = (0..).filter(|number| !taken.contains(number)).nth(spare);
    limit(pid, Resource::Nofile, first_forbidden)
}

/// Three descriptors are needed, and returned.
fn descriptors(spare: usize) -> Outcome {
    let place = Place::new()?;
    let mut partner = start_in_c(3)?;
    let pid = partner.pid();
    partner.ask("0")?;
    let before = getrlimit(Resource::Nofile).current;
    spare_descriptors(pid, spare)?;
    fails(&place, pid, "cannot attach")?;
    limit(pid, Resource::Nofile, before)?;
    goes_on(&mut partner)?;
    spare_descriptors(pid, 3)?;
    place.attached(pid, &["--date", FUTURE.0])?;
    partner.finish(7)?;
    place.expect_nobody()
}

/// It continues on the host, undisturbed.
fn goes_on(partner: &mut Partner) -> Outcome {
    let answer = partner.ask("1")?;
    let disturbed: u64 = answer.number::<u64>("back")? + answer.number::<u64>("failed")?;
    ensure!(disturbed == 0, "it was disturbed: {:?}", answer.values);
    for key in ["date", "child_date"] {
        let date: f64 = answer.number(key)?;
        ensure!(date < FUTURE.1 as f64, "{key}={date}");
    }
    Ok(())
}

fn memory() -> Outcome {
    let place = Place::new()?;
    let mut partner = start_in_c(3)?;
    let pid = partner.pid();
    partner.ask("1")?;
    let mut failed = 0;
    for room in ROOMS {
        let before = Outside::of(pid)?;
        limit(pid, Resource::As, Some(size_of(pid)? + room * PAGE))?;
        let ended = place.attach(pid, &["--date", FUTURE.0])?;
        limit(pid, Resource::As, None)?;
        if ended.status.success() {
            break;
        }
        failed += 1;
        ended.expect_code(125)?;
        ended.ensure(ended.errors.contains("goes on as before"), format_args!("{room} pages"))?;
        before.ensure_unchanged(pid)?;
        goes_on(&mut partner)?;
    }
    ensure!(failed > 1 && failed < ROOMS.len(), "{failed} of {} failed", ROOMS.len());
    let date: f64 = partner.ask("0")?.number("date")?;
    ensure!(date >= FUTURE.1 as f64, "its date is {date}");
    partner.finish(7)?;
    place.expect_nobody()
}

/// The size of a process's address space, in bytes.
fn size_of(pid: u32) -> Result<u64, Broken> {
    let text = status_field(pid, "VmSize").unwrap_or_default();
    let kib: u64 = text.trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}

/// A failed attach does not disturb the waits of a process.
fn waits_go_on() -> Outcome {
    let place = Place::new()?;
    let mut partner = endless_partner(Build::Dynamic)?;
    let pid = partner.pid();
    wait_until_blocked(pid)?;
    limit(pid, Resource::As, Some(size_of(pid)?))?;
    fails(&place, pid, "cannot attach")?;
    limit(pid, Resource::As, None)?;
    wait_until_blocked(pid)?;
    let answer = partner.ask("look")?;
    ensure!(answer.lines.is_empty(), "returned: {:?}", answer.values);
    check_woken(&partner.ask("wake")?)?;
    partner.finish(0)?;
    place.expect_nobody()
}

//! What a container's programs see: only the clocks differ.

use std::collections::BTreeSet;

use serde_json::json;

use crate::command::Finished;
use crate::containers::Scenario;
use crate::containers::abilities::Ability;
use crate::containers::container::{Container, PATIENCE, profile, run_to_end, show};
use crate::containers::engine::Engine;
use crate::containers::spec::{Choice, Image, Runtime, Spec};
use crate::ensure;
use crate::suite::{Broken, Outcome};
use crate::terminal::Terminal;
use crate::timeline::FUTURE;

/// The rows of the table.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "inside::plain", takes: &[], body: |engine| unnoticed(engine, Vec::new()) },
    Scenario {
        name: "inside::of_a_scratch_image",
        takes: &[Ability::Scratch],
        body: |engine| compare(engine, &Spec::new(&[]).of(Image::Scratch)).map(drop),
    },
    Scenario {
        name: "inside::read_only",
        takes: &[Ability::ReadOnly],
        body: |engine| unnoticed(engine, vec![Choice::ReadOnly]),
    },
    Scenario {
        name: "inside::of_another_user",
        takes: &[Ability::User],
        body: |engine| unnoticed(engine, vec![Choice::User(1000, 1000)]),
    },
    Scenario {
        name: "inside::without_capabilities",
        takes: &[Ability::NoCapabilities],
        body: |engine| unnoticed(engine, vec![Choice::NoCapabilities]),
    },
    Scenario {
        name: "inside::no_new_privileges",
        takes: &[Ability::NoNewPrivileges],
        body: |engine| unnoticed(engine, vec![Choice::NoNewPrivileges]),
    },
    Scenario {
        name: "inside::all_of_these",
        takes: &[Ability::User, Ability::Seccomp],
        body: all_of_these,
    },
    Scenario { name: "inside::own_profile", takes: &[Ability::Seccomp], body: own_profile },
    Scenario {
        name: "inside::profile_of_the_worst_kind",
        takes: &[Ability::Bundles],
        body: worst_profile,
    },
    Scenario {
        name: "inside::privileged",
        takes: &[Ability::Privileged],
        body: |engine| unnoticed(engine, vec![Choice::Privileged]),
    },
    Scenario { name: "inside::pids_of_the_host", takes: &[Ability::HostPids], body: host_pids },
    Scenario {
        name: "inside::pids_of_another_container",
        takes: &[Ability::SharedPids],
        body: shared_pids,
    },
    Scenario { name: "inside::terminal", takes: &[], body: terminal },
    Scenario {
        name: "inside::set_user_id_program",
        takes: &[Ability::User],
        body: |engine| set_user_id(engine, Vec::new()),
    },
    Scenario { name: "inside::seccomp_listener_of_its_own", takes: &[], body: listener },
    Scenario { name: "inside::variables_of_others_stay", takes: &[], body: variables },
];

/// The findings of the first process, line by line.
fn look(engine: &dyn Engine, spec: &Spec) -> Result<Finished, Broken> {
    let command = vec!["/opt/contained".to_owned(), "look".to_owned()];
    let ended = run_to_end(engine, &Spec { command, ..spec.clone() })?;
    ended.expect_code(0)?;
    ended.text("done").map(drop).or_else(|broken| match ended.output().ends_with("done") {
        true => Ok(()),
        false => Err(broken),
    })?;
    Ok(ended)
}

/// The lines to compare.
fn comparable(ended: &Finished) -> BTreeSet<&str> {
    ended.lines.iter().map(|line| line.text.as_str()).collect()
}

/// With settings, everything looks the same as without Eigentime.
fn compare(engine: &dyn Engine, spec: &Spec) -> Result<Finished, Broken> {
    let bare = look(engine, &spec.clone().by(Runtime::Bare))?;
    let seen = look(engine, &spec.clone().set("date", FUTURE.0).set("monotonic", "+1d"))?;
    let (without, with) = (comparable(&bare), comparable(&seen));
    let more: Vec<_> = with.difference(&without).collect();
    let less: Vec<_> = without.difference(&with).collect();
    seen.ensure(
        more.is_empty() && less.is_empty(),
        format_args!("with Eigentime there is {more:?}, and there is not {less:?}"),
    )?;
    seen.ensure(!seen.output().contains("EIGENTIME"), "there are variables of Eigentime")?;
    for line in ["pid=1", "process=1"] {
        seen.ensure(with.contains(line), format_args!("no {line}"))?;
    }
    let processes = with.iter().filter(|line| line.starts_with("process=")).count();
    seen.ensure(processes == 1, format_args!("{processes} processes"))?;
    seen.ensure(with.contains("status=TracerPid:\t0"), "it sees its tracer")?;
    Ok(seen)
}

/// Nothing is noticeable except the other clock.
fn unnoticed(engine: &dyn Engine, choices: Vec<Choice>) -> Outcome {
    let spec = Spec { choices, ..Spec::new(&["date", "+%s"]) };
    compare(engine, &spec)?;
    expect_date(engine, spec)
}

fn expect_date(engine: &dyn Engine, spec: Spec) -> Outcome {
    let ended = run_to_end(engine, &spec.set("date", FUTURE.0))?;
    ended.expect_code(0)?;
    let seconds: i64 = ended.output().trim().parse()?;
    ended.ensure((0..60).contains(&(seconds - FUTURE.1)), "its date is another")
}

fn all_of_these(engine: &dyn Engine) -> Outcome {
    unnoticed(
        engine,
        vec![
            Choice::ReadOnly,
            Choice::User(1000, 1000),
            Choice::NoCapabilities,
            Choice::NoNewPrivileges,
            Choice::Seccomp(profile()?),
        ],
    )
}

/// A profile still applies, even if it forbids calls that Eigentime itself uses.
fn own_profile(engine: &dyn Engine) -> Outcome {
    let choices = vec![Choice::Seccomp(profile()?)];
    unnoticed(engine, choices.clone())?;
    let spec = Spec { choices, ..Spec::new(&["mkdir", "/tmp/x"]) };
    for spec in [spec.clone().by(Runtime::Bare), spec.set("date", FUTURE.0)] {
        let ended = run_to_end(engine, &spec)?;
        ended.ensure(!ended.status.success(), "it may do what the profile forbids")?;
        ended.ensure(ended.errors.contains("not permitted"), "it fails for another reason")?;
    }
    Ok(())
}

/// A profile that forbids calls with which a program is prepared: if the supervisor may make them,
/// the program is prepared all the same; otherwise the failure is reported, and it ends.
fn worst_profile(engine: &dyn Engine) -> Outcome {
    let bundles = engine.bundles().ok_or_else(|| Broken("no bundles".into()))?;
    for call in ["mmap", "clock_gettime", "socketpair"] {
        let profile = json!({
            "defaultAction": "SCMP_ACT_ALLOW",
            "architectures": ["SCMP_ARCH_X86_64"],
            "syscalls": [{ "names": [call], "action": "SCMP_ACT_ERRNO" }],
        });
        let spec = Spec::new(&["date", "+%Y"]).set("date", FUTURE.0);
        let spec = spec.choose(Choice::Configuration("/linux/seccomp", profile));
        let ended = run_to_end(engine, &spec)?;
        if bundles.is_root {
            ended.expect_code(0)?;
            ended.ensure(ended.output().trim() == "2100", call)?;
        } else {
            ended.ensure(!ended.status.success(), call)?;
            let told = format!("{}{}", ended.output(), ended.errors);
            ended.ensure(told.contains("is not run in this timeline"), call)?;
        }
    }
    Ok(())
}

fn host_pids(engine: &dyn Engine) -> Outcome {
    expect_date(engine, Spec::new(&["date", "+%s"]).choose(Choice::HostPids))?;
    let spec = Spec::new(&["sh", "-c", "echo $$"]).choose(Choice::HostPids).set("rate", "2");
    let ended = run_to_end(engine, &spec)?;
    ended.expect_code(0)?;
    ended.ensure(ended.output().trim() != "1", "it is the first of its process namespace")
}

/// Two containers see each other's processes, and each has its own clock.
fn shared_pids(engine: &dyn Engine) -> Outcome {
    let first = Container::serve(engine, &Spec::serving().set("offset", "-1d"))?;
    let share = Choice::PidsOf(first.name.clone(), first.init()?);
    expect_date(engine, Spec::new(&["date", "+%s"]).choose(share.clone()))?;
    let names = Spec::new(&["cat", "/proc/1/comm"]).choose(share);
    let ended = run_to_end(engine, &names.set("date", FUTURE.0))?;
    ended.expect_code(0)?;
    ended.ensure(ended.output().trim() == "contained", "it does not see the other's processes")
}

/// A shell on a terminal made by the engine, which is its input and output, and the source of its
/// signals.
fn terminal(engine: &dyn Engine) -> Outcome {
    let spec = Spec::new(&["sh"]).choose(Choice::Terminal).set("date", FUTURE.0);
    let (_container, command) = Container::foreground(engine, &spec)?;
    let mut terminal = Terminal::start(&command)?;
    terminal.expect("# ", PATIENCE)?;
    terminal.type_in("echo it is $((1+1)) $(date +%Y)\n")?;
    terminal.expect("it is 2 2100", PATIENCE)?;
    terminal.type_in("tty\n")?;
    terminal.expect("/dev/", PATIENCE)?;
    terminal.type_in("sh -c 'echo slee\"ping\"; exec sleep 1000'\n")?;
    terminal.expect("sleeping", PATIENCE)?;
    terminal.type_in("\u{3}")?;
    terminal.type_in("echo interrupted $((3*3))\n")?;
    terminal.expect("interrupted 9", PATIENCE)?;
    terminal.type_in("exit 5\n")?;
    let status = terminal.finish(PATIENCE)?;
    ensure!(status.code() == Some(5), "it ended with {status}");
    Ok(())
}

/// A set-user-ID root program of an ordinary user is root, as without Eigentime.
fn set_user_id(engine: &dyn Engine, choices: Vec<Choice>) -> Outcome {
    let spec = Spec { choices, ..Spec::new(&["/opt/set_user_id", "users"]) };
    let spec = spec.choose(Choice::User(1000, 1000));
    for spec in [spec.clone().by(Runtime::Bare), spec.set("date", FUTURE.0)] {
        let ended = run_to_end(engine, &spec)?;
        ended.expect_code(0)?;
        let users = (ended.number::<u32>("uid")?, ended.number::<u32>("euid")?);
        ended.ensure(users == (1000, 0), "the program does not run as its owner")?;
        ended.ensure(ended.output().contains("NoNewPrivs:\t0"), "no_new_privs is set")?;
    }
    Ok(())
}

/// A program that answers its children's system calls continues to do so.
fn listener(engine: &dyn Engine) -> Outcome {
    let spec = Spec::new(&["/opt/contained", "listens"]).set("date", FUTURE.0);
    let spec = spec.set("traced", "true");
    let ended = run_to_end(engine, &spec)?;
    ended.expect_code(0)?;
    let answer: i64 = ended.number("answer")?;
    ended.ensure(answer == 4242, "the listener does not answer")?;
    let seconds: i64 = ended.number("seconds")?;
    ended.ensure((0..60).contains(&(seconds - FUTURE.1)), "its date is another")
}

/// Variables that are not settings stay, whatever channel the engine has.
fn variables(engine: &dyn Engine) -> Outcome {
    let spec = Spec::new(&["sh", "-c", "echo kept=$MY_EIGENTIME_DATE,$HOME,$SETTING"]);
    let spec = spec
        .choose(Choice::Variable("MY_EIGENTIME_DATE", "x".into()))
        .choose(Choice::Variable("SETTING", "a b=c".into()))
        .choose(Choice::Variable("EIGENTIME_RATE", "5".into()))
        .set("date", FUTURE.0);
    let ended = run_to_end(engine, &spec)?;
    ended.expect_code(0)?;
    let kept = ended.text("kept")?;
    ended.ensure(kept.starts_with("x,/") && kept.ends_with(",a b=c"), "they did not stay")?;
    // A process that enters later has the container's variables except the settings.
    let container = Container::serve(engine, &Spec { ..spec_of_variables() })?;
    let environment =
        container.exec(&["sh", "-c", "cat /proc/1/environ; cat /proc/self/environ"])?;
    environment.expect_code(0)?;
    let text = environment.output();
    // Where variables are the settings, they are removed; an ignored one belongs to the program.
    environment.ensure(!text.contains("EIGENTIME_DATE"), "they see settings")?;
    environment.ensure(text.contains("SETTING=x"), "the other variables are missing")?;
    let init = container.init()?;
    let shown = show(engine, &container.id()?)?;
    ensure!(shown.member(init).is_some(), "{init} is not among {:?}", shown.members);
    Ok(())
}

fn spec_of_variables() -> Spec {
    Spec::serving()
        .choose(Choice::Variable("SETTING", "x".into()))
        .choose(Choice::Variable("EIGENTIME_RATE", "5".into()))
        .set("date", FUTURE.0)
}

//! What the command does.

use std::thread;
use std::time::Instant;

use crate::case::{Case, Step};
use crate::compare::{FROZEN, Outcome, Plan, When, agrees, run, run_all, run_through};
use crate::known;
use crate::rows;
use crate::settings;
use crate::span::Scale;
use crate::spec::{Spec, What};
use crate::timeline::{CONFIGS, Config, Place, Servers, Sites};

/// How many processes make calls at the same time on a timeline.
const SERVERS: usize = 64;
/// The same where all of them wait for a change of the clocks.
const TOGETHER: usize = 128;

pub type Done = Result<bool, String>;

/// The value after an option.
pub fn option<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    let at = words.iter().position(|word| *word == name)?;
    words.get(at + 1).copied()
}

fn chosen(words: &[&str]) -> Vec<usize> {
    let only = option(words, "--only").unwrap_or("");
    let all = rows::all().iter().enumerate();
    let suit = all.filter(|(_, case)| case.name.contains(only)).map(|(place, _)| place);
    // What takes long does so together.
    let mut chosen: Vec<_> = suit.collect();
    chosen.sort_by_key(|at| takes_long(&rows::all()[*at]));
    chosen
}

/// Is it interrupted for seconds, or, where the clocks stand, without an end?
fn takes_long(case: &Case) -> (bool, bool) {
    let lasts = |step: &Step| matches!(step, Step::Signals(_) | Step::Outlast);
    let is_stopped = case.steps.contains(&Step::Stop) && !case.steps.contains(&Step::Fire);
    (case.name.starts_with("so_"), is_stopped || case.steps.iter().any(lasts))
}

/// What differs in one place.
struct Difference {
    timeline: String,
    case: usize,
    host: Outcome,
    other: Outcome,
}

/// The timelines that are named, or all of them, and whether calls there go straight to the image.
pub fn timelines(words: &[&str]) -> Vec<(String, &'static Config, Sites)> {
    let named: Vec<_> = words.iter().filter(|word| word.contains('/')).collect();
    let all = CONFIGS.iter().flat_map(|config| {
        [Sites::Trapped, Sites::Rewritten]
            .map(|sites| (format!("{}/{sites:?}", config.name).to_lowercase(), config, sites))
    });
    all.filter(|(name, ..)| named.is_empty() || named.contains(&&name.as_str())).collect()
}

pub fn rows(words: &[&str]) -> Done {
    let places = chosen(words);
    // What loops until something is ready does so for changes only.
    let places: Vec<usize> =
        places.into_iter().filter(|at| !rows::all()[*at].name.ends_with("/looping")).collect();
    let chosen = timelines(words);
    let (host, others) = everywhere(&chosen, &places)?;
    let mut differences = Vec::new();
    let mut all_known_differ = true;
    for ((name, config, sites), other) in chosen.into_iter().zip(others) {
        let alone = |again: &[usize]| on_timeline(config, sites, 1, again);
        let found = judged(&name, None, &places, &host, &other, alone)?;
        all_known_differ &= known_differ(&name, &places, &found);
        differences.extend(found);
    }
    Ok(tell(&differences) && all_known_differ)
}

/// What the cases record on the host and on timelines, at the same time: they mostly sleep.
fn everywhere(
    chosen: &[(String, &'static Config, Sites)],
    places: &[usize],
) -> Result<(Vec<Outcome>, Vec<Vec<Outcome>>), String> {
    let began = Instant::now();
    let took = |name: &str| println!("{name}: {} cases in {:.1?}", places.len(), began.elapsed());
    thread::scope(|scope| {
        let others = chosen.iter().map(|(name, config, sites)| {
            scope
                .spawn(move || on_timeline(config, *sites, SERVERS, places).inspect(|_| took(name)))
        });
        let others: Vec<_> = others.collect();
        let host = run(&Servers::start(Place::Host, SERVERS)?, Scale::ONE, places);
        took("host");
        let others = others.into_iter().map(|it| it.join().expect("it does not panic"));
        Ok((host, others.collect::<Result<_, _>>()?))
    })
}

/// Does everything differ that is known to do so in every run?
fn known_differ(timeline: &str, places: &[usize], found: &[Difference]) -> bool {
    let name = |place: usize| rows::all()[place].name.as_str();
    let compared: Vec<_> = places.iter().map(|place| name(*place)).collect();
    let differing: Vec<_> = found.iter().map(|it| name(it.case)).collect();
    let mended = known::mended(timeline, &compared, &differing);
    mended.iter().for_each(|why| println!("NO LONGER DIFFERS on {timeline}: {why}"));
    mended.is_empty()
}

fn on_timeline(
    config: &Config,
    sites: Sites,
    servers: usize,
    places: &[usize],
) -> Result<Vec<Outcome>, String> {
    let servers = if config.is_frozen { TOGETHER } else { servers };
    let servers = Servers::start(Place::Timeline(config, sites), servers)?;
    if config.is_frozen {
        run_through(&servers, config.scale, places, &FROZEN)
    } else {
        Ok(run(&servers, config.scale, places))
    }
}

/// What differs. Many processes at once, on a machine that others use too, disturb each other: what is
/// not known to differ is judged by a run of its own, one case at a time.
fn judged(
    name: &str,
    plan: Option<&Plan>,
    places: &[usize],
    host: &[Outcome],
    other: &[Outcome],
    alone: impl FnOnce(&[usize]) -> Result<Vec<Outcome>, String>,
) -> Result<Vec<Difference>, String> {
    let found = differing(name, plan, places, host, other);
    let is_known =
        |it: &Difference| known::reason(&rows::all()[it.case].name, &it.timeline).is_some();
    let (mut found, unknown): (Vec<_>, Vec<_>) = found.into_iter().partition(is_known);
    if !unknown.is_empty() {
        println!("{name}: {} cases differed beside others, and are run alone", unknown.len());
        let again: Vec<_> = unknown.iter().map(|it| it.case).collect();
        let host = run(&Servers::start(Place::Host, 1)?, Scale::ONE, &again);
        found.extend(differing(name, plan, &again, &host, &alone(&again)?));
    }
    Ok(found)
}

fn differing(
    name: &str,
    plan: Option<&Plan>,
    places: &[usize],
    host: &[Outcome],
    other: &[Outcome],
) -> Vec<Difference> {
    let all = places.iter().zip(host.iter().zip(other));
    let all = all.filter(|(_, (host, other))| !agrees(host, other, plan));
    all.map(|(&case, (host, other))| Difference {
        timeline: name.to_owned(),
        case,
        host: host.clone(),
        other: other.clone(),
    })
    .collect()
}

/// Prints what differs; is that what is known to?
fn tell(differences: &[Difference]) -> bool {
    let mut unknown = 0;
    for difference in differences {
        let name = &rows::all()[difference.case].name;
        let why = known::reason(name, &difference.timeline);
        if why.is_none() {
            unknown += 1;
        }
        println!(
            "{} {} on {}\n  host:     {}\n  timeline: {}{}",
            if why.is_some() { "known:" } else { "DIFFERS:" },
            name,
            difference.timeline,
            difference.host.record,
            difference.other.record,
            difference.other.waits.map_or(String::new(), |waits| format!(" (waited: {waits})")),
        );
    }
    println!("{} differences, {unknown} of them unknown", differences.len());
    unknown == 0
}

/// A change of the clocks, the timeline that it is made of, and how it is undone.
type Change = (&'static str, &'static Config, i64, Plan);

const fn change(
    verb: &'static str,
    words: &'static [&'static str],
    undo: &'static [(&'static str, &'static [&'static str])],
) -> Plan {
    Plan { when: When::Before, change: Some((verb, words)), freezes: false, undo, slower: 1 }
}

/// Each with how much faster the clocks may be meanwhile.
const CHANGES: [Change; 5] = [
    ("faster", IDENTITY, 10, change("set", &["--rate", "10"], &[("set", &["--rate", "1"])])),
    (
        "slower",
        IDENTITY,
        1,
        Plan { slower: 2, ..change("set", &["--rate", "0.5"], &[("set", &["--rate", "1"])]) },
    ),
    ("leap", IDENTITY, 2, change("leap", &["1s"], &[])),
    ("freeze", IDENTITY, 1, Plan { freezes: true, ..change("freeze", &[], &[]) }),
    ("thaw", STANDING, 1, change("thaw", &[], &[("freeze", &[])])),
];
const IDENTITY: &Config = &CONFIGS[0];
const STANDING: &Config = &CONFIGS[5];

/// Those that wait, and are not busy with signals for seconds.
fn suits_changes(place: usize) -> bool {
    let case = &rows::all()[place];
    let is_refused =
        ["/pointer_", "/argument_", "/time/"].iter().any(|part| case.name.contains(part));
    let waits = case.shown_as != [0; 2] || case.name.contains("goes_off");
    let (of_socket, long) = takes_long(case);
    // The timeouts of sockets stay as they were set.
    waits && !is_refused && !of_socket && !long
}

/// Is the result the same, whether the thread is in the kernel when the event comes or about to look
/// at the change? What interrupts or wakes it has to meet it there.
fn suits_beside(case: &Case) -> bool {
    let is_met = |step: &Step| matches!(step, Step::Signal(_) | Step::Stop);
    let depends = ["futex", "recvmmsg"].iter().any(|part| case.name.contains(part));
    !depends && !case.steps.iter().any(is_met)
}

pub fn changes(words: &[&str]) -> Done {
    let places: Vec<_> = chosen(words).into_iter().filter(|at| suits_changes(*at)).collect();
    let host = run(&Servers::start(Place::Host, SERVERS)?, Scale::ONE, &places);
    let mut differences = Vec::new();
    for sites in [Sites::Trapped, Sites::Rewritten] {
        let sites_name = format!("{sites:?}").to_lowercase();
        let is_other =
            |word: &&str| ["trapped", "rewritten"].contains(word) && **word != sites_name;
        if words.iter().any(is_other) {
            continue;
        }
        for (name, config, most, plan) in &CHANGES {
            let servers = Servers::start(Place::Timeline(config, sites), TOGETHER)?;
            let scale = Scale { most: *most, ..Scale::ONE };
            for when in [When::Before, When::Beside, When::After] {
                // All that happens while the clocks stand is among the rows.
                if config.is_frozen && when == When::After {
                    continue;
                }
                let name = format!("{name}/{when:?}/{sites_name}").to_lowercase();
                let plan = Plan { when, ..*plan };
                let suit = |at: &usize| when != When::Beside || suits_beside(&rows::all()[*at]);
                let (places, host): (Vec<usize>, Vec<Outcome>) = places
                    .iter()
                    .zip(&host)
                    .filter(|(at, _)| suit(at))
                    .map(|(at, host)| (*at, host.clone()))
                    .unzip();
                let started = Instant::now();
                let other = run_through(&servers, scale, &places, &plan)?;
                println!("{name}: {} cases in {:.1?}", places.len(), started.elapsed());
                let alone = |again: &[usize]| {
                    let server = Servers::start(Place::Timeline(config, sites), 1)?;
                    run_through(&server, scale, again, &plan)
                };
                differences.extend(judged(&name, Some(&plan), &places, &host, &other, alone)?);
            }
        }
    }
    Ok(tell(&differences))
}

/// Sets the clocks of timelines that let anyone do so. What is recorded has to be what the manual
/// says, for the host's clock is not set to find out.
pub fn permitted() -> Done {
    let mut differing = 0;
    for config in &CONFIGS {
        let place = Place::Timeline(&Config { is_settable: true, ..*config }, Sites::Trapped);
        // One at a time: each finds that its clocks were moved by itself alone.
        let servers = Servers::start(place, 1)?;
        for (place, (case, expected)) in settings::permitted().iter().enumerate() {
            let what = What::Permitted(place);
            let outcome = run_all(&servers, &[Spec { scale: config.scale, what }]).remove(0);
            let expected = format!("{} {expected}", case.name);
            if outcome.record != expected {
                differing += 1;
                println!("DIFFERS on {}: {}\n  manual: {expected}", config.name, outcome.record);
            }
        }
    }
    println!("{differing} differences");
    Ok(differing == 0)
}

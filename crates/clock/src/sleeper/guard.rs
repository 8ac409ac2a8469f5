use super::Policy;
use super::histogram::Histogram;
use crate::Instant;

/// What a thread has learned about the kernel's punctuality, from which follows how long before the
/// target the kernel should wake it.
///
/// A plain value of fixed size (about 7 KB) that needs no memory, lock or destructor: it can be a
/// constant, live in thread-local storage, and be used in a signal handler.
///
/// Latencies are kept by the length of the sleep, in powers of two, since a processor that idles
/// longer enters deeper idle states. Each sample weighs less than the next and is forgotten after a
/// thousand. The guard is the one that would have sufficed for the requested share of them, limited
/// by what may be spun on average, by what has been saved up of that, and by the maximum guard.
#[derive(Clone, Debug)]
pub struct Guard {
    classes: [Class; CLASSES],
    /// The spinning credit, in nanoseconds. The first sleep has half of the maximum, which depends
    /// on its policy.
    credit: Option<f64>,
    /// When the last sleep ended.
    woke: Option<Instant>,
}

/// What is known about sleeps of about one length.
#[derive(Clone, Debug)]
struct Class {
    latencies: Histogram,
    /// The number of consecutive sleeps that were spun completely.
    spins: u32,
    /// After this many of them one is left to the kernel.
    patience: u32,
    /// Whether the current sleep is that one.
    exploring: bool,
}

/// Sleeps shorter than 2^15 ns = 33 µs are of the first class.
const SHORTEST: u32 = 15;
/// Sleeps of 2^24 ns = 17 ms and longer are of the last class.
const LONGEST: u32 = 24;
const CLASSES: usize = (LONGEST - SHORTEST + 2) as usize;

/// The assumed latency before the first sample: a timer without slack wakes an ordinary thread in
/// 20 to 50 µs.
const SUPPOSED: u64 = 40_000;
/// The weight in samples of the assumption, and of what one class learns from the next.
const SUPPOSED_SAMPLES: f32 = 4.0;
/// The margin for later wake-ups than recently seen: as a divisor of the guard, and in nanoseconds.
const MARGIN_SHARE: u64 = 8;
const MARGIN: u64 = 1_000;
/// The shortest wait left to the kernel, in nanoseconds.
const WORTHWHILE: u64 = 3_000;
/// After this many completely spun sleeps, one is left to the kernel to see whether it has
/// improved: rare enough for the 99th percentile not to show it. The interval halves after a
/// success and doubles after a failure, within these bounds.
const PATIENCE: u32 = 256;
const LEAST_PATIENCE: u32 = 4;
const MOST_PATIENCE: u32 = 4_096;

impl Guard {
    /// The initial state.
    #[must_use]
    pub const fn new() -> Self {
        const NOTHING: Class =
            Class { latencies: Histogram::new(), spins: 0, patience: PATIENCE, exploring: false };
        Self { classes: [NOTHING; CLASSES], credit: None, woke: None }
    }

    /// How long before its target a sleep of this length should be woken, in nanoseconds, given how
    /// long before that target the last one ended.
    pub(crate) fn plan(&mut self, policy: &Policy, length: u64, cycle: u64) -> u64 {
        let saved = policy.saved();
        let allowed = policy.allowed(cycle);
        let credit = (self.credit.unwrap_or(saved / 2.0) + allowed).min(saved);
        self.credit = Some(credit);
        // From half of the allowed average, if nothing is saved, up to one and a half times it.
        let mean = allowed * (0.5 + if saved > 0.0 { credit / saved } else { 0.0 });
        let class = self.class(length);
        let enough = class.latencies.below(policy.late());
        let wanted = enough.saturating_add(enough / MARGIN_SHARE + MARGIN);
        let most = policy.most().min(credit.max(0.0) as u64);
        let guard = wanted.min(class.latencies.affordable(mean)).min(most);
        class.exploring = false;
        if length.saturating_sub(guard) >= WORTHWHILE || length > most {
            class.spins = 0;
            return guard;
        }
        class.spins += 1;
        if class.spins < class.patience {
            return length;
        }
        class.spins = 0;
        class.exploring = true;
        length / 2
    }

    /// Records how late the kernel ended its part of a sleep of this length.
    pub(crate) fn observe(&mut self, length: u64, latency: u64) {
        let class = self.class(length);
        class.latencies.add(latency);
        if class.exploring {
            let better = latency < length / 2;
            class.patience = if better { class.patience / 2 } else { class.patience * 2 }
                .clamp(LEAST_PATIENCE, MOST_PATIENCE);
        }
    }

    /// Records how long a sleep has spun.
    pub(crate) fn spent(&mut self, nanos: u64) {
        self.credit = self.credit.map(|credit| credit - nanos as f64);
    }

    /// How long before `target` the last sleep ended; none before the first.
    pub(super) fn cycle(&self, target: Instant) -> Option<u64> {
        let cycle = target.checked_duration_since(self.woke?)?;
        Some(u64::try_from(cycle.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Records the end of a sleep.
    pub(super) fn woken(&mut self, woke: Instant) {
        self.woke = Some(woke);
    }

    /// The class of this length. If it has no latencies, those of the nearest class that has any
    /// are assumed.
    fn class(&mut self, length: u64) -> &mut Class {
        let number = number(length);
        if self.classes[number].latencies.is_empty() {
            let known = |class: &usize| !self.classes[*class].latencies.is_empty();
            let near = (0..CLASSES).filter(known).min_by_key(|class| class.abs_diff(number));
            match near.and_then(|near| self.classes.get_disjoint_mut([number, near]).ok()) {
                Some([class, near]) => {
                    class.latencies.suppose_as(&near.latencies, SUPPOSED_SAMPLES);
                }
                None => self.classes[number].latencies.suppose(SUPPOSED, SUPPOSED_SAMPLES),
            }
        }
        &mut self.classes[number]
    }
}

impl Default for Guard {
    fn default() -> Self {
        Self::new()
    }
}

fn number(length: u64) -> usize {
    let power = length.max(1).ilog2();
    (power.clamp(SHORTEST - 1, LONGEST) - (SHORTEST - 1)) as usize
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const ALL: Policy = Policy { cpu: 1.0, ..Policy::new() };

    /// A kernel that wakes with given latencies, and one sleep after another.
    struct Model {
        guard: Guard,
        policy: Policy,
        spun: f64,
        allowed: f64,
        in_time: u32,
        last: u64,
    }

    impl Model {
        fn new(policy: Policy) -> Self {
            Self { guard: Guard::new(), policy, spun: 0.0, allowed: 0.0, in_time: 0, last: 0 }
        }

        fn sleep(&mut self, length: u64, latency: u64) {
            let ahead = self.guard.plan(&self.policy, length, length);
            let spun = if ahead < length {
                self.guard.observe(length, latency);
                ahead.saturating_sub(latency)
            } else {
                length
            };
            self.guard.spent(spun);
            self.last = ahead;
            self.in_time += u32::from(ahead >= length || latency <= ahead);
            self.spun += spun as f64;
            self.allowed += self.policy.allowed(length);
        }

        fn sleeps(&mut self, count: u32, length: u64, latency: impl Fn(u32) -> u64) {
            self.in_time = 0;
            (0..count).for_each(|sleep| self.sleep(length, latency(sleep)));
        }
    }

    fn policies() -> impl Strategy<Value = Policy> {
        (0.0..=1.0, 0.0..=1.0, 0..1_000_u64).prop_map(|(quantile, cpu, most)| Policy {
            quantile,
            cpu,
            max_guard: Duration::from_micros(most),
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever the kernel does and whatever is requested.
        #[test]
        fn the_cap_and_the_budget_hold(
            policy in policies(),
            sleeps in prop::collection::vec((1..20_000_000_u64, 0..20_000_000_u64), 1..400),
        ) {
            let mut model = Model::new(policy);
            for (length, latency) in sleeps {
                model.sleep(length, latency);
                prop_assert!(model.last <= policy.most());
                prop_assert!(model.spun <= model.allowed + policy.saved() + 1.0);
            }
        }

        /// The same for sleeps of one length, which spin the most.
        #[test]
        fn the_budget_holds_in_the_long_run(
            length in 1_000..3_000_000_u64,
            latencies in prop::collection::vec(0..400_000_u64, 1..50),
        ) {
            let mut model = Model::new(Policy::default());
            for latency in latencies.iter().cycle().take(3_000) {
                model.sleep(length, *latency);
            }
            prop_assert!(model.spun <= model.allowed + model.policy.saved() + 1.0);
        }

        /// If the budget allows it, the requested share is on time.
        #[test]
        fn the_quantile_is_reached(latencies in prop::collection::vec(5_000..200_000_u64, 16..64)) {
            let mut model = Model::new(Policy { quantile: 0.9, ..ALL });
            let count = latencies.len() as u32;
            model.sleeps(2_000, 1_000_000, |sleep| latencies[(sleep * 7 % count) as usize]);
            prop_assert!(model.in_time >= 1_700, "{} of 2000", model.in_time);
        }
    }

    #[test]
    fn one_bad_first_sample_is_got_over() {
        for policy in [Policy::default(), ALL] {
            let mut model = Model::new(policy);
            model.sleep(1_000_000, 12_000_000);
            assert!(model.last <= 50_000, "what is supposed: {}", model.last);
            model.sleeps(40, 1_000_000, |_| 25_000);
            assert!((25_000..50_000).contains(&model.last), "{}", model.last);
        }
    }

    #[test]
    fn an_outlier_now_and_then_is_not_waited_for() {
        let mut model = Model::new(Policy { quantile: 0.99, ..ALL });
        model.sleeps(3_000, 1_000_000, |sleep| if sleep % 500 == 0 { 240_000 } else { 25_000 });
        assert!((26_000..34_000).contains(&model.last), "{}", model.last);
    }

    #[test]
    fn a_change_is_followed() {
        let mut model = Model::new(ALL);
        model.sleeps(1_000, 1_000_000, |_| 20_000);
        assert!((21_000..27_000).contains(&model.last), "{}", model.last);
        model.sleeps(8, 1_000_000, |_| 100_000);
        assert!((101_000..125_000).contains(&model.last), "quickly up: {}", model.last);
        model.sleeps(1_000, 1_000_000, |_| 100_000);
        model.sleeps(1_600, 1_000_000, |_| 20_000);
        assert!((21_000..27_000).contains(&model.last), "and down again: {}", model.last);
    }

    /// With the whole processor to spin on, nothing is learned about the kernel unless it is tried.
    #[test]
    fn what_is_spun_altogether_is_tried_again() {
        let mut model = Model::new(ALL);
        model.sleeps(1_000, 100_000, |_| 240_000);
        assert_eq!(model.last, 100_000, "all is spun");
        model.sleeps(40_000, 100_000, |_| 20_000);
        assert!((21_000..27_000).contains(&model.last), "{}", model.last);
    }

    #[test]
    fn trying_again_in_vain_is_rare() {
        let mut model = Model::new(Policy::default());
        model.sleeps(40_000, 10_000, |_| 20_000);
        assert_eq!(model.last, 10_000);
        assert!(model.in_time >= 40_000 - 20, "{}", model.in_time);
    }

    /// Ten times later than the budget can cover: the budget is used up, and not exceeded.
    #[test]
    fn a_busy_machine_takes_the_budget_and_no_more() {
        let mut model = Model::new(Policy::default());
        model.sleeps(500, 1_000_000, |_| 25_000);
        let (spun, allowed) = (model.spun, model.allowed);
        model.sleeps(5_000, 1_000_000, |sleep| if sleep % 2 == 0 { 25_000 } else { 900_000 });
        let share = (model.spun - spun) / (model.allowed - allowed);
        assert!((0.5..1.05).contains(&share), "{share} of the budget");
        assert!(model.in_time >= 2_400, "those that can be: {}", model.in_time);
    }

    #[test]
    fn lengths_learn_from_one_another() {
        let mut model = Model::new(Policy::default());
        model.sleeps(100, 1_000_000, |_| 60_000);
        let ahead = model.guard.plan(&ALL, 5_000_000, 5_000_000);
        assert!((61_000..75_000).contains(&ahead), "{ahead}");
    }

    #[test]
    fn without_a_budget_nothing_is_spun() {
        let mut model = Model::new(Policy { cpu: 0.0, ..Policy::default() });
        for length in [1, 10_000, 1_000_000] {
            model.sleeps(300, length, |_| 25_000);
        }
        assert!(model.spun == 0.0 && model.last == 0);
    }

    #[test]
    fn it_is_small_and_constant() {
        static NOTHING: Guard = Guard::new();
        assert!(size_of_val(&NOTHING) < 8_192);
        assert!(!std::mem::needs_drop::<Guard>());
    }
}

//! Creates a timeline inside another, as requested by a program that calls `eigentime run` there.

use eigentime_calls::{Nr, nr};
use eigentime_vdso::NESTING_CLOCK;
use nix::errno::Errno;

use super::Supervisor;
use super::plain::Plain;
use super::timelines::Inner;
use super::tracee::Tracee;
use crate::filter::Scope;
use crate::nested::{Asked, Entered, Letter};
use crate::plan::{Lifelong, Start, Tracing, lifelong};

impl Plain for Letter {}

/// A limit above the size of any request.
const MOST: u64 = 64 << 10;

/// Whether it is the call by which a program requests a timeline inside its own.
pub fn asks_to_nest(nr: Nr, args: &[u64; 6]) -> bool {
    nr == nr::CLOCK_GETTIME && args[0] as u32 == NESTING_CLOCK
}

impl Supervisor {
    /// Serves the request of a thread in the letter at an address; returns the length of the answer.
    pub(super) fn nest(&mut self, thread: Tracee, letter: u64) -> nix::Result<i64> {
        let letter: Letter = thread.read_plain(letter)?;
        if letter.length > MOST {
            return Err(Errno::E2BIG);
        }
        let mut text = vec![0; letter.length as usize];
        thread.read(letter.text, &mut text)?;
        let asked = serde_json::from_slice(&text).map_err(|error| error.to_string());
        let answer = asked.and_then(|asked| self.make_inner(thread, &asked));
        let text = serde_json::to_vec(&answer).expect("an answer is plain data");
        if text.len() as u64 > letter.room {
            return Err(Errno::E2BIG);
        }
        thread.write(letter.answer, &text)?;
        Ok(text.len() as i64)
    }

    /// Creates a timeline in which the thread starts its next program.
    fn make_inner(&mut self, thread: Tracee, asked: &Asked) -> Result<Entered, String> {
        let Asked { clocks, consent, rewrites, tracing } = asked;
        let refusals = [
            (
                self.journal.is_some(),
                "no timeline can be made inside one that was made with --keep-running: a \
                 replacement supervisor would not know the inner one\n\
                 help: make the outer timeline without --keep-running, or start eigentime \
                 outside of it",
            ),
            (
                self.idle.is_some(),
                "no timeline can be made inside one that skips idle time\n\
                 help: use --rate outside, or start eigentime outside of it",
            ),
            (
                clocks.skip.is_some(),
                "--skip-idle is not possible inside another timeline\n\
                 help: use --rate, or start eigentime outside of it",
            ),
            (
                matches!(clocks.start, Start::Saved(..)),
                "--continue is not possible inside another timeline\n\
                 help: use --date and --rate, or start eigentime outside of it",
            ),
        ];
        if let Some((_, reason)) = refusals.into_iter().find(|(holds, _)| *holds) {
            return Err(reason.to_owned());
        }
        self.forget_timelines();
        let on = self.timeline_of(thread.0);
        let outer = self.timelines.get(on);
        let scope = match clocks.scope_inside() {
            Scope::Wall => outer.scope,
            Scope::All => Scope::All,
        };
        let needs_filter = scope != outer.scope;
        let filters = outer.filters + u32::from(needs_filter);
        let reason = lifelong(*tracing, clocks).or(needs_filter.then_some(Lifelong::Nested));
        let is_traced = self.notified.is_none();
        if *tracing == Tracing::Brief && (is_traced || reason.is_some()) {
            let why = match self.lifelong.filter(|_| is_traced).or(reason) {
                Some(reason) => format!(" ({reason})"),
                None => String::new(),
            };
            return Err(format!(
                "--debuggable is not possible inside this timeline, which must trace the program for \
                 life{why}\nhelp: leave it out, or start eigentime outside of the timeline"
            ));
        }
        if !self.hold(thread) {
            return Err("the program is followed by a debugger\n\
                        help: start it without the debugger, then attach the debugger"
                .to_owned());
        }
        let inner = Inner { clocks, scope, consent: *consent, filters };
        let number = self.timelines.add(on, &inner)?;
        self.rewrite_only_if(*rewrites);
        let state = self.thread(thread);
        state.kept = state.kept.or(reason.filter(|_| !is_traced));
        state.enters = Some(number);
        let rate = self.timelines.get(number).timekeeper.segment().rate;
        Ok(Entered { exempt: self.layout.exempt(), rate, needs_filter })
    }
}

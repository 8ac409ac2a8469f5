//! The progress display of a study: a bar with the time left on a terminal, lines for notes, and
//! machine-readable records. Nothing is drawn during a measurement.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use eigentime_probe::Record;
use eigentime_study::plan::Head;
use eigentime_study::results::rows::Source;
use eigentime_study::study::Watch;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

/// The display of a study.
pub struct Screen {
    bar: ProgressBar,
    json: Option<Source>,
    begun: Option<(Instant, Duration)>,
    /// Why records could not be printed, unless the reader is gone.
    pub unprinted: Option<io::Error>,
}

/// A machine-readable line.
#[derive(Serialize)]
struct Line<'a> {
    run: &'a str,
    machine: &'a str,
    level: &'a str,
    load: &'a str,
    block: u32,
    order: u32,
    begin_ns: i64,
    #[serde(flatten)]
    record: &'a Record,
}

impl Screen {
    /// Makes one that prints records as JSON if `json` names their source.
    pub fn new(json: Option<Source>) -> Self {
        let target = match io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        let style = ProgressStyle::with_template("{bar:24} {percent:>3} %{prefix}  {wide_msg}");
        bar.set_style(style.expect("the template is sound"));
        Self { bar, json, begun: None, unprinted: None }
    }

    /// Clears what was drawn.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn line(&self, source: &Source, head: &Head, record: &Record) -> io::Result<()> {
        let line = Line {
            run: &source.run,
            machine: &source.machine,
            level: &head.level,
            load: head.load.name(),
            block: head.block,
            order: head.order,
            begin_ns: head.begin_ns,
            record,
        };
        let mut text = serde_json::to_string(&line)?;
        text.push('\n');
        io::stdout().lock().write_all(text.as_bytes())
    }
}

impl Watch for Screen {
    fn say(&mut self, text: &str) {
        self.bar.suspend(|| eprintln!("eigentime: {text}"));
    }

    fn doing(&mut self, what: &str, done: Duration, all: Duration) {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.bar.set_length(millis(all).max(1));
        self.bar.set_position(millis(done));
        if !all.is_zero() {
            let (begun, before) = *self.begun.get_or_insert_with(|| (Instant::now(), done));
            self.bar.set_prefix(left(begun.elapsed(), done.saturating_sub(before), all - done));
        }
        self.bar.set_message(what.to_owned());
        self.bar.tick();
    }

    fn kept(&mut self, head: &Head, record: &Record) {
        if let Some(source) = &self.json
            && let Err(error) = self.line(source, head, record)
        {
            // They are in the folder all the same.
            self.json = None;
            self.unprinted = Some(error).filter(|it| it.kind() != io::ErrorKind::BrokenPipe);
        }
    }
}

/// The remaining time, estimated from the time that the completed part took.
fn left(took: Duration, behind: Duration, ahead: Duration) -> String {
    /// Before this, the first steps are not representative.
    const ENOUGH: Duration = Duration::from_secs(2);
    if took < ENOUGH || behind.is_zero() {
        return String::new();
    }
    let seconds = took.as_secs_f64() / behind.as_secs_f64() * ahead.as_secs_f64();
    let seconds = seconds.round() as u64;
    match seconds {
        0..60 => format!(", {seconds} s left"),
        60..3600 => format!(", {}:{:02} left", seconds / 60, seconds % 60),
        _ => format!(", {}:{:02}:{:02} left", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_told_by_what_is_behind() {
        let secs = Duration::from_secs;
        assert_eq!(left(secs(1), secs(1), secs(9)), "");
        assert_eq!(left(secs(20), secs(10), secs(29)), ", 58 s left");
        assert_eq!(left(secs(10), secs(10), secs(61)), ", 1:01 left");
        assert_eq!(left(secs(10), secs(10), secs(3661)), ", 1:01:01 left");
    }
}

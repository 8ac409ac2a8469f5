//! The page that people read.

use std::io::{self, IsTerminal};

use anstyle::{AnsiColor, Style};
use eigentime_doctor::{Finding, Report, Topic, Verdict};
use textwrap::{Options, WordSeparator, WordSplitter};

/// The narrowest and the widest page, in columns.
const NARROWEST: usize = 50;
const WIDEST: usize = 100;
/// Where the terminal does not say.
const USUAL: usize = 80;

/// Before what belongs to a finding.
const INDENT: &str = "           ";

/// The headings of topics.
fn heading(topic: Topic) -> &'static str {
    match topic {
        Topic::Clocks => "Clocks: who serves them, and what that costs",
        Topic::Order => "Order: do clocks go backwards?",
        Topic::Discipline => "Discipline: who steers the clocks",
        Topic::Timers => "Timers and wake-ups",
        Topic::Surroundings => "Surroundings: what takes time away",
        Topic::Containers => "Timelines and containers: what they need",
    }
}

const BOLD: Style = Style::new().bold();

fn colour(verdict: Verdict) -> Style {
    let colour = match verdict {
        Verdict::Ok => AnsiColor::Green,
        Verdict::Note => AnsiColor::Cyan,
        Verdict::Warning => AnsiColor::Yellow,
        Verdict::Problem => AnsiColor::Red,
    };
    Style::new().fg_color(Some(colour.into())).bold()
}

/// How wide the page may be: as the terminal, and in a file or a pipe as `COLUMNS` says, or as is
/// read easily.
pub fn width(is_for_output: bool) -> usize {
    let is_terminal = is_for_output && io::stdout().is_terminal();
    let columns = match is_terminal {
        true => terminal_size::terminal_size().map(|(columns, _)| usize::from(columns.0)),
        false => std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()),
    };
    let columns = columns.unwrap_or(if is_terminal { USUAL } else { WIDEST });
    columns.clamp(NARROWEST, WIDEST)
}

/// The page, with colours: who writes it takes them away where nobody would see them.
pub fn text(report: &Report, width: usize) -> String {
    let mut page = Page { text: String::new(), width };
    page.say("", "", &conclusion(report), BOLD);
    page.summarize(report);
    for topic in Topic::ALL {
        let mut findings = report.findings.iter().filter(|it| it.topic == topic).peekable();
        if findings.peek().is_some() {
            page.text.push('\n');
            page.say("", "", heading(topic), BOLD);
        }
        findings.for_each(|finding| page.tell(finding));
    }
    page.text
}

/// The whole in a sentence.
fn conclusion(report: &Report) -> String {
    let of = |verdict| -> Vec<&str> {
        let findings = report.findings.iter().filter(|finding| finding.verdict == verdict);
        findings.map(|finding| finding.key.as_str()).collect()
    };
    let counted = |count: usize, one: &str| match count {
        1 => format!("one {one}"),
        _ => format!("{count} {one}s"),
    };
    let (problems, warnings, notes) =
        (of(Verdict::Problem), of(Verdict::Warning), of(Verdict::Note));
    let mut parts = Vec::new();
    if !problems.is_empty() {
        parts.push(format!("time is wrong or something cannot work ({})", problems.join(", ")));
    }
    if !warnings.is_empty() {
        let what = "time costs more or is less precise than it could be";
        parts.push(format!("{what} ({})", warnings.join(", ")));
    }
    let mut sentence = match parts.is_empty() {
        true if report.findings.is_empty() => "Nothing was looked at".to_owned(),
        true => "Time is as it should be here".to_owned(),
        false => format!("Here {}", parts.join(", and ")),
    };
    if !notes.is_empty() {
        let notes = counted(notes.len(), "thing");
        sentence += &format!("; {notes} worth knowing");
    }
    sentence + "."
}

struct Page {
    text: String,
    width: usize,
}

impl Page {
    /// What is to be looked at: problems and warnings, the worst first.
    fn summarize(&mut self, report: &Report) {
        let of = |verdict| report.findings.iter().filter(move |it| it.verdict == verdict);
        let mut worst = of(Verdict::Problem).chain(of(Verdict::Warning)).peekable();
        if worst.peek().is_some() {
            self.text.push('\n');
            self.say("", "", "What to look at", BOLD);
        }
        worst.for_each(|finding| self.begin(finding));
    }

    /// A finding in a sentence.
    fn begin(&mut self, finding: &Finding) {
        let verdict = finding.verdict.name();
        let style = colour(finding.verdict);
        let mark = format!("  {style}{verdict:7}{style:#}  ");
        let sentence = format!("{}: {}", finding.key, finding.found);
        self.say(&mark, INDENT, &sentence, Style::new());
    }

    /// A finding: its verdict and key, what was found, and what can be done.
    fn tell(&mut self, finding: &Finding) {
        self.begin(finding);
        for line in &finding.lines {
            self.say(INDENT, &format!("{INDENT}  "), line, Style::new());
        }
        for advice in &finding.advice {
            let rest = format!("{INDENT}      ");
            self.say(&format!("{INDENT}  do: "), &rest, &advice.what, Style::new());
            if !advice.risk.is_empty() {
                let risk = format!("{INDENT}    risk: ");
                self.say(&risk, &format!("{INDENT}          "), &advice.risk, Style::new());
            }
        }
    }

    /// A paragraph, of which lines after the first begin in another way.
    fn say(&mut self, first: &str, rest: &str, text: &str, style: Style) {
        let plain = anstream::adapter::strip_str(first).to_string();
        // Paths and commands stay whole, to be copied, unless they are longer than a line.
        let options = Options::new(self.width)
            .initial_indent(&plain)
            .subsequent_indent(rest)
            .break_words(true)
            .word_separator(WordSeparator::AsciiSpace)
            .word_splitter(WordSplitter::NoHyphenation);
        let lines: Vec<String> =
            textwrap::wrap(text, options).into_iter().map(Into::into).collect();
        for (number, line) in lines.iter().enumerate() {
            let line = line.trim_end();
            match line.strip_prefix(&plain).filter(|_| number == 0) {
                Some(line) => self.text += &format!("{first}{style}{line}{style:#}\n"),
                None => self.text += &format!("{style}{line}{style:#}\n"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(key: &str, topic: Topic, finding: Finding) -> Finding {
        Finding { key: key.into(), topic, ..finding }
    }

    fn plain(report: &Report, width: usize) -> String {
        anstream::adapter::strip_str(&text(report, width)).to_string()
    }

    fn report() -> Report {
        Report::of(vec![
            finding("ptrace", Topic::Containers, Finding::problem("not allowed")),
            finding(
                "clocks",
                Topic::Clocks,
                Finding::warning("CLOCK_REALTIME falls back to system calls: 560 ns each")
                    .line("CLOCK_REALTIME            kernel       560 ns")
                    .advise("echo tsc > current_clocksource", "time may jump when it is moved"),
            ),
            finding("clocksource", Topic::Clocks, Finding::note("hpet")),
        ])
    }

    #[test]
    fn the_page_is_grouped_and_begins_with_the_conclusion() {
        let expected = "\
Here time is wrong or something cannot work (ptrace), and time costs more or is less precise than it
could be (clocks); one thing worth knowing.

What to look at
  problem  ptrace: not allowed
  warning  clocks: CLOCK_REALTIME falls back to system calls: 560 ns each

Clocks: who serves them, and what that costs
  warning  clocks: CLOCK_REALTIME falls back to system calls: 560 ns each
           CLOCK_REALTIME            kernel       560 ns
             do: echo tsc > current_clocksource
               risk: time may jump when it is moved
  note     clocksource: hpet

Timelines and containers: what they need
  problem  ptrace: not allowed
";
        assert_eq!(plain(&report(), WIDEST), expected);
    }

    #[test]
    fn it_is_as_wide_as_the_terminal() {
        let page = plain(&report(), 60);
        assert!(page.lines().all(|line| line.chars().count() <= 60), "{page}");
        assert!(page.contains("\n           CLOCK_REALTIME            kernel       560 ns\n"));
        let long = "/usr/lib/".repeat(20);
        let whole = Report::of(vec![finding("a", Topic::Clocks, Finding::ok(long))]);
        for width in [NARROWEST, 60, 80, WIDEST] {
            let page = plain(&whole, width);
            assert!(page.lines().all(|line| line.chars().count() <= width), "{page}");
        }
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&page), words(&plain(&report(), WIDEST)), "nothing is lost");
    }

    #[test]
    fn what_is_well_is_called_so() {
        let well = Report::of(vec![finding("clocks", Topic::Clocks, Finding::ok("vDSO"))]);
        assert!(plain(&well, WIDEST).starts_with("Time is as it should be here.\n"));
        assert_eq!(plain(&Report::of(Vec::new()), WIDEST), "Nothing was looked at.\n");
    }

    #[test]
    fn verdicts_are_coloured() {
        let page = text(&report(), WIDEST);
        assert!(page.contains("\x1b[1m\x1b[31mproblem") || page.contains("\x1b[31m"), "{page:?}");
    }
}

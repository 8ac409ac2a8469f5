//! The page for people.

use std::io::{self, IsTerminal};

use anstyle::{AnsiColor, Style};
use eigentime_doctor::{Finding, Report, Topic, Verdict, explanation};
use textwrap::{Options, WordSeparator, WordSplitter};

/// The minimum and maximum width of the page, in columns.
const NARROWEST: usize = 50;
const WIDEST: usize = 100;
/// The width if the terminal does not report one.
const USUAL: usize = 80;

/// The indentation of a finding's details.
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

/// The width of the page: that of the terminal; in a file or a pipe, that of `COLUMNS`, or a
/// readable one.
pub fn width(is_for_output: bool) -> usize {
    let is_terminal = is_for_output && io::stdout().is_terminal();
    let columns = match is_terminal {
        true => terminal_size::terminal_size().map(|(columns, _)| usize::from(columns.0)),
        false => std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()),
    };
    let columns = columns.unwrap_or(if is_terminal { USUAL } else { WIDEST });
    columns.clamp(NARROWEST, WIDEST)
}

/// The maximum number of problems and warnings in the summary, of at most two lines each: with
/// everything else, the summary fits a terminal of 24 lines of 80 columns, below the command.
const MOST: usize = 5;

/// The check whose sentence represents its topic in the summary, unless another is worse.
fn headline(topic: Topic) -> &'static str {
    match topic {
        Topic::Clocks => "clock-reads",
        Topic::Order => "order",
        Topic::Discipline => "synchronization",
        Topic::Timers => "wake-ups",
        Topic::Surroundings => "hypervisor",
        Topic::Containers => "kernel",
    }
}

/// Problems, and a line for each topic, with colours; the writer strips them where they would not
/// be visible.
pub fn summary(report: &Report, width: usize) -> String {
    let mut page = Page { text: String::new(), width };
    page.say("", "", &count(report), BOLD);
    page.text.push('\n');
    let of = |verdict| report.findings.iter().filter(move |it| it.verdict == verdict);
    let wrong: Vec<_> = of(Verdict::Problem).chain(of(Verdict::Warning)).collect();
    for finding in wrong.iter().take(MOST) {
        page.start(finding.verdict, &finding.key, &finding.found, 2);
    }
    if wrong.len() > MOST {
        page.say(INDENT, INDENT, &format!("and {} more", wrong.len() - MOST), Style::new());
    }
    if !wrong.is_empty() {
        page.text.push('\n');
    }
    for topic in Topic::ALL {
        // The worst; the headline among equals.
        let findings = report.findings.iter().rev().filter(|it| it.topic == topic);
        let shown = findings.max_by_key(|it| (it.verdict, it.key == headline(topic)));
        if let Some(Finding { verdict, key, found, .. }) = shown {
            page.start(*verdict, topic.name(), &format!("{key}: {found}"), 1);
        }
    }
    page.text += "\neigentime doctor --explain ID   what a check means and what can be done\n";
    page.text += "eigentime doctor --details      every check (--list: their IDs)\n";
    page.text
}

/// The check of this key: its findings, their meaning, and the documentation.
pub fn explanation(report: &Report, key: &str, width: usize) -> String {
    let mut page = Page { text: String::new(), width };
    report.findings.iter().for_each(|finding| page.tell(finding));
    let Some(explanation) = explanation::of(key) else { return page.text };
    for paragraph in explanation.text {
        page.text.push('\n');
        page.say("", "", paragraph, Style::new());
    }
    page.text
}

/// The number of findings of each verdict, from bad to good.
fn count(report: &Report) -> String {
    let counts = Verdict::ALL.iter().rev().filter_map(|verdict| {
        let count = report.findings.iter().filter(|it| it.verdict == *verdict).count();
        let plural = if count == 1 || *verdict == Verdict::Ok { "" } else { "s" };
        (count > 0).then(|| format!("{count} {}{plural}", verdict.name()))
    });
    format!("{} checks: {}", report.findings.len(), counts.collect::<Vec<_>>().join(", "))
}

/// Everything, by topic.
pub fn details(report: &Report, width: usize) -> String {
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

/// The conclusion in a sentence.
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
    /// Problems and warnings, the worst first.
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

    /// A sentence after its verdict and name, cut after this many lines.
    fn start(&mut self, verdict: Verdict, name: &str, sentence: &str, most: usize) {
        let style = colour(verdict);
        let mark = format!("  {style}{:7}{style:#}  ", verdict.name());
        let mut whole = Page { text: String::new(), width: self.width - 2 };
        whole.say(&mark, INDENT, &format!("{name}: {sentence}"), Style::new());
        let lines: Vec<_> = whole.text.lines().collect();
        self.text += &lines[..lines.len().min(most)].join("\n");
        self.text += if lines.len() > most { " …\n" } else { "\n" };
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
        for link in &finding.links {
            let see = format!("{INDENT}  see: ");
            let rest = format!("{INDENT}       ");
            self.say(&see, &rest, &format!("{}: {}", link.title, link.url), Style::new());
        }
    }

    /// A paragraph with a different indentation after the first line.
    fn say(&mut self, first: &str, rest: &str, text: &str, style: Style) {
        let plain = anstream::adapter::strip_str(first).to_string();
        // Paths and commands are not broken, so that they can be copied, unless they are longer
        // than a line.
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
        anstream::adapter::strip_str(&details(report, width)).to_string()
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
    fn the_summary_fits_a_terminal() {
        let long = "a sentence that goes on and on ".repeat(9);
        let findings = Topic::ALL.into_iter().cycle().take(60);
        let findings = findings.map(|topic| finding("key", topic, Finding::warning(long.clone())));
        let summary = summary(&Report::of(findings.collect()), USUAL);
        let summary = anstream::adapter::strip_str(&summary).to_string();
        assert!(summary.lines().count() < 24, "{summary}");
        assert!(summary.lines().all(|line| line.chars().count() <= USUAL), "{summary}");
        assert!(summary.starts_with("60 checks: 60 warnings\n"), "{summary}");
        assert!(summary.contains("and 55 more"), "{summary}");
    }

    #[test]
    fn an_explanation_has_a_text_and_its_sources() {
        let explanation::Explanation { text, links } = explanation::of("ptrace").unwrap();
        let found = Finding { links, ..Finding::problem("not allowed") };
        let report = Report::of(vec![finding("ptrace", Topic::Containers, found)]);
        let page = explanation(&report, "ptrace", WIDEST);
        let page = anstream::adapter::strip_str(&page).to_string();
        assert!(page.starts_with("  problem  ptrace: not allowed\n"), "{page}");
        assert!(page.contains("see: Linux: Yama: https://"), "{page}");
        let [words, of_text] =
            [&page, &text.join(" ")].map(|it| it.split_whitespace().collect::<Vec<_>>().join(" "));
        assert!(words.ends_with(&of_text) && !of_text.is_empty(), "{page}");
    }

    #[test]
    fn verdicts_are_coloured() {
        let page = details(&report(), WIDEST);
        assert!(page.contains("\x1b[1m\x1b[31mproblem") || page.contains("\x1b[31m"), "{page:?}");
    }
}

//! What is wrong with an input, and where.

use std::{borrow::Cow, ops::Range};

/// An input that could not be understood.
///
/// Prints the reason in one line, then the input with carets under the bad part,
/// then a line that helps:
///
/// ```text
/// invalid date "2038-13-19": month 13 is not between 1 and 12
///     2038-13-19
///          ^^
/// help: write 2038-01-19T03:14:07Z, "2038-01-19 03:14:07" (local time), or @2147483647
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what} {input}: {reason}{pointer}\nhelp: {help}", input = quoted(.input), pointer = self.pointer())]
pub struct ParseError {
    what: &'static str,
    input: String,
    range: Range<usize>,
    reason: String,
    help: Cow<'static, str>,
}

impl ParseError {
    /// An error about the bytes `range` of `input`, which should have been a
    /// `what`.
    pub(super) fn new(
        what: &'static str,
        input: &str,
        range: Range<usize>,
        reason: impl Into<String>,
        help: &'static str,
    ) -> Self {
        Self { what, input: input.into(), range, reason: reason.into(), help: help.into() }
    }

    /// The same error with other help.
    pub(super) fn with_help(mut self, help: impl Into<Cow<'static, str>>) -> Self {
        self.help = help.into();
        self
    }

    /// The input as it was given.
    #[must_use]
    pub fn input(&self) -> &str {
        &self.input
    }

    /// The bytes of the input that are wrong; empty where something is missing.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Why the input could not be understood, without a full stop.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// What to do instead.
    #[must_use]
    pub fn help(&self) -> &str {
        &self.help
    }

    /// The lines that show the input and point at the bad part of it.
    fn pointer(&self) -> String {
        if self.input.is_empty() {
            return String::new();
        }
        let (mut line, mut skipped, mut marked) = (String::new(), 0, 0);
        for (at, character) in self.input.char_indices() {
            let piece = visible(character);
            let width: usize = piece.chars().map(columns).sum();
            line.push_str(&piece);
            if at < self.range.start {
                skipped += width;
            } else if at < self.range.end {
                marked += width;
            }
        }
        let carets = "^".repeat(marked.max(1));
        format!("\n    {line}\n    {:skipped$}{carets}", "")
    }
}

/// Text as it can be shown in a message: in quotes, nothing in it that moves the
/// cursor.
pub(super) fn quoted(text: &str) -> String {
    let inner: String = text.chars().map(visible).collect();
    format!("\"{inner}\"")
}

/// A character as it is shown: control, formatting and combining characters,
/// which have no place of their own on the screen, become an escape.
fn visible(character: char) -> String {
    match character {
        '\'' | '"' | '\\' => character.into(),
        other => other.escape_debug().collect(),
    }
}

/// Columns that a visible character takes on a terminal.
fn columns(character: char) -> usize {
    let code = u32::from(character);
    let wide = WIDE.iter().any(|&(first, last)| (first..=last).contains(&code));
    if wide { 2 } else { 1 }
}

/// The blocks whose characters are two columns wide, after Unicode's
/// EastAsianWidth.txt (W and F), in whole blocks.
const WIDE: [(u32, u32); 10] = [
    (0x1100, 0x115f),   // Hangul Jamo
    (0x2e80, 0x303e),   // CJK radicals and punctuation
    (0x3041, 0xa4cf),   // Kana, CJK ideographs, Yi
    (0xac00, 0xd7a3),   // Hangul syllables
    (0xf900, 0xfaff),   // CJK compatibility ideographs
    (0xfe30, 0xfe6f),   // CJK compatibility forms
    (0xff01, 0xff60),   // fullwidth forms
    (0xffe0, 0xffe6),   // fullwidth signs
    (0x1f300, 0x1faff), // pictographs and emoji
    (0x20000, 0x3fffd), // CJK ideographs, later planes
];

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(input: &str, range: Range<usize>) -> String {
        ParseError::new("thing", input, range, "it is bad", "do better").to_string()
    }

    #[test]
    fn carets_stand_under_the_bad_part() {
        assert_eq!(
            shown("abcdef", 2..4),
            "invalid thing \"abcdef\": it is bad\n    abcdef\n      ^^\nhelp: do better"
        );
    }

    #[test]
    fn what_is_missing_gets_one_caret() {
        assert_eq!(
            shown("abc", 3..3),
            "invalid thing \"abc\": it is bad\n    abc\n       ^\nhelp: do better"
        );
    }

    #[test]
    fn an_empty_input_is_not_shown() {
        assert_eq!(shown("", 0..0), "invalid thing \"\": it is bad\nhelp: do better");
    }

    #[test]
    fn carets_count_columns_not_bytes() {
        assert_eq!(
            shown("äµx", 4..5),
            "invalid thing \"äµx\": it is bad\n    äµx\n      ^\nhelp: do better"
        );
        assert_eq!(
            shown("1日x", 1..4),
            "invalid thing \"1日x\": it is bad\n    1日x\n     ^^\nhelp: do better"
        );
    }

    #[test]
    fn control_and_combining_characters_are_escaped() {
        assert_eq!(
            shown("a\tb\u{1b}c", 3..4),
            "invalid thing \"a\\tb\\u{1b}c\": it is bad\n    a\\tb\\u{1b}c\n        ^^^^^^\nhelp: do better"
        );
        assert_eq!(visible('\u{301}'), "\\u{301}");
        assert_eq!(visible('\u{202e}'), "\\u{202e}");
        assert_eq!(visible('\''), "'");
    }

    #[test]
    fn parts_can_be_asked_for() {
        let error = ParseError::new("thing", "abc", 1..2, "it is bad", "do better");
        assert_eq!(error.input(), "abc");
        assert_eq!(error.range(), 1..2);
        assert_eq!(error.reason(), "it is bad");
        assert_eq!(error.help(), "do better");
        assert_eq!(error.with_help("run").help(), "run");
    }
}

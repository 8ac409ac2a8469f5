//! The walk over an input that all parsers share.

use std::ops::Range;

use super::error::{ParseError, quoted};

/// An input and how far it has been read.
pub(super) struct Scanner<'a> {
    what: &'static str,
    help: &'static str,
    input: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    /// Starts reading; an empty input is an error at once.
    pub(super) fn new(
        what: &'static str,
        help: &'static str,
        input: &'a str,
    ) -> Result<Self, ParseError> {
        let scan = Self { what, help, input, at: 0 };
        if input.is_empty() {
            return Err(scan.error(0..0, "it is empty"));
        }
        Ok(scan)
    }

    /// Bytes read so far.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// What has been read since `start`.
    pub(super) fn since(&self, start: usize) -> Range<usize> {
        start..self.at
    }

    /// The whole input.
    pub(super) fn whole(&self) -> Range<usize> {
        0..self.input.len()
    }

    /// A part of the input.
    pub(super) fn text(&self, range: Range<usize>) -> &'a str {
        &self.input[range]
    }

    /// Has everything been read?
    pub(super) fn is_done(&self) -> bool {
        self.at == self.input.len()
    }

    /// The next character.
    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Reads the next character if it is one of `wanted`.
    pub(super) fn eat(&mut self, wanted: &[char]) -> Option<char> {
        let next = self.peek().filter(|next| wanted.contains(next))?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Reads the longest run of characters that are `wanted`.
    pub(super) fn run(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let start = self.at;
        let rest = self.rest();
        self.at += rest.find(|next| !wanted(next)).unwrap_or(rest.len());
        self.text(self.since(start))
    }

    /// Reads the longest run of ASCII digits.
    pub(super) fn digits(&mut self) -> &'a str {
        self.run(|next| next.is_ascii_digit())
    }

    /// Everything must have been read.
    pub(super) fn finish(&self) -> Result<(), ParseError> {
        if self.is_done() { Ok(()) } else { Err(self.unexpected()) }
    }

    /// An error about a part of the input.
    pub(super) fn error(&self, range: Range<usize>, reason: impl Into<String>) -> ParseError {
        ParseError::new(self.what, self.input, range, reason, self.help)
    }

    /// The error of finding something else than `wanted` here.
    pub(super) fn expected(&self, wanted: &str) -> ParseError {
        let range = self.next_token();
        let found = match self.text(range.clone()) {
            "" => "the end".into(),
            token => quoted(token),
        };
        self.error(range, format!("expected {wanted}, found {found}"))
    }

    /// The error of finding anything here.
    pub(super) fn unexpected(&self) -> ParseError {
        let range = self.next_token();
        let token = self.text(range.clone());
        if token.starts_with(char::is_whitespace) {
            return self.error(range, "no space may stand here");
        }
        self.error(range, format!("unexpected {}", quoted(token)))
    }

    /// The word or single character that comes next.
    fn next_token(&self) -> Range<usize> {
        let rest = self.rest();
        let word = rest.find(|next: char| !next.is_alphabetic()).unwrap_or(rest.len());
        let first = self.peek().map_or(0, char::len_utf8);
        self.at..self.at + word.max(first)
    }

    fn rest(&self) -> &'a str {
        &self.input[self.at..]
    }
}

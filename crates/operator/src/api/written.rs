//! Values stored as text in objects.

use std::borrow::Cow;

use eigentime_timeline::text::{format_date, format_offset, parse_date, parse_offset, parse_rate};
use eigentime_timeline::{HostInstant, Nanos, Rate, VirtualInstant};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A value with its original text: a rate of 1/3 stays one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written<T> {
    text: String,
    /// Its meaning.
    pub value: T,
}

/// A value that can be parsed from text.
pub trait Read: Sized {
    /// Parses it.
    ///
    /// # Errors
    ///
    /// If it is invalid.
    fn read(text: &str) -> Result<Self, String>;
}

impl Read for VirtualInstant {
    /// A date that means the same on every node.
    fn read(text: &str) -> Result<Self, String> {
        let date = parse_date(text).map_err(|error| error.to_string())?;
        let zone = text.rsplit_once(['T', 't', ' ']).map_or("", |(_, time)| time);
        let is_zoned = zone.ends_with(['Z', 'z', ']']) || zone.contains(['+', '-']);
        match is_zoned || text.starts_with('@') {
            true => Ok(date),
            false => Err("it names no zone, and nodes may be in several\n\
                          help: write 2038-01-19T03:14:07Z"
                .to_owned()),
        }
    }
}

impl Read for HostInstant {
    fn read(text: &str) -> Result<Self, String> {
        VirtualInstant::read(text).map(|date| Self(date.0))
    }
}

impl Read for Nanos {
    fn read(text: &str) -> Result<Self, String> {
        parse_offset(text).map_err(|error| error.to_string())
    }
}

impl Read for Rate {
    fn read(text: &str) -> Result<Self, String> {
        parse_rate(text).map_err(|error| error.to_string())
    }
}

impl<T: Read> Written<T> {
    /// Parses it.
    ///
    /// # Errors
    ///
    /// If it is invalid.
    pub fn read(text: &str) -> Result<Self, String> {
        T::read(text).map(|value| Self { text: text.to_owned(), value })
    }
}

impl<T> Written<T> {
    /// The original text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl From<HostInstant> for Written<HostInstant> {
    fn from(value: HostInstant) -> Self {
        Self { text: format_date(VirtualInstant(value.0)), value }
    }
}

impl From<VirtualInstant> for Written<VirtualInstant> {
    fn from(value: VirtualInstant) -> Self {
        Self { text: format_date(value), value }
    }
}

impl From<Nanos> for Written<Nanos> {
    fn from(value: Nanos) -> Self {
        Self { text: format_offset(value), value }
    }
}

impl<T> Serialize for Written<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(to)
    }
}

impl<'de, T: Read> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::read(&text).map_err(D::Error::custom)
    }
}

impl<T> JsonSchema for Written<T> {
    fn schema_name() -> Cow<'static, str> {
        "Written".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

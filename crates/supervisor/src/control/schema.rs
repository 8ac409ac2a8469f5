//! The JSON schema of the public protocol, made from its types.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::protocol::{At, Call, Date, Factor, Happened, Reply, Span, Written};
use super::{Shown, Timeline};
use crate::saved::Saved;

/// A line of the protocol.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is of use")]
enum Line {
    /// What a caller writes.
    Request(Call),
    /// What it is answered.
    Answer(Reply),
    /// What happens, if it watches.
    Event(Happened),
}

macro_rules! written {
    ($($type:ident)*) => {$(
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                Written::json_schema(generator)
            }
        }
    )*};
}

written! { Span Date At Factor }

/// The schema, as it is kept in `docs/guide/control.schema.json`.
///
/// # Panics
/// Never: schemas are plain data.
#[must_use]
pub fn text() -> String {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    // What is in results.
    generator.subschema_for::<Timeline>();
    generator.subschema_for::<Shown>();
    generator.subschema_for::<Saved>();
    let mut schema = generator.into_root_schema_for::<Line>();
    schema.insert("title".into(), "A line on the socket of a timeline, protocol version 1".into());
    let text = serde_json::to_string_pretty(&schema).expect("schemas are plain data");
    format!("{text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_schema_is_that_of_the_types() {
        const KEPT: &str = include_str!("../../../../docs/guide/control.schema.json");
        assert!(
            KEPT == text(),
            "docs/guide/control.schema.json is not what the types say: make docs"
        );
    }
}

//! The JSON schema of the public protocol, generated from its types.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::protocol::{At, Call, Date, Factor, Happened, Reply, Span, Written};
use super::{Shown, Timeline};
use crate::saved::Saved;

/// A line of the protocol.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is of use")]
enum Line {
    /// A request of a caller.
    Request(Call),
    /// The answer.
    Answer(Reply),
    /// An event, for callers that watch.
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

/// Makes `params` optional in requests where no parameter is required, which its type cannot
/// express.
fn leave_out_needless_params(schema: &mut Schema) {
    let Some(kept) = schema.get("$defs").cloned() else { return };
    let requires_some = |params: &Value| match params["$ref"].as_str() {
        Some(name) => !kept[name.trim_start_matches("#/$defs/")]["required"].is_null(),
        None => !params["required"].is_null(),
    };
    let methods = schema.pointer_mut("/$defs/Call/oneOf").and_then(Value::as_array_mut);
    for method in methods.into_iter().flatten() {
        if !requires_some(&method["properties"]["params"]) {
            method["required"] = json!(["method"]);
        }
    }
}

/// The schema, as stored in `docs/guide/control.schema.json`.
///
/// # Panics
/// Never: schemas are plain data.
#[must_use]
pub fn text() -> String {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    // Types that occur in results.
    generator.subschema_for::<Timeline>();
    generator.subschema_for::<Shown>();
    generator.subschema_for::<Saved>();
    let mut schema = generator.into_root_schema_for::<Line>();
    schema.insert("title".into(), "A line on the socket of a timeline, protocol version 1".into());
    leave_out_needless_params(&mut schema);
    let text = serde_json::to_string_pretty(&schema).expect("schemas are plain data");
    format!("{text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_may_be_left_out_where_none_is_required() {
        let schema: Value = serde_json::from_str(&text()).unwrap();
        let methods = schema["$defs"]["Call"]["oneOf"].as_array().unwrap();
        for (name, required) in [("info", json!(["method"])), ("leap", json!(["method", "params"]))]
        {
            let is_it = |it: &&Value| it["properties"]["method"]["const"] == name;
            assert_eq!(methods.iter().find(is_it).unwrap()["required"], required, "{name}");
        }
    }

    #[test]
    fn the_kept_schema_is_that_of_the_types() {
        const KEPT: &str = include_str!("../../../../docs/guide/control.schema.json");
        assert!(
            KEPT == text(),
            "docs/guide/control.schema.json is not what the types say: make docs"
        );
    }
}

//! The headers: each alone, in every standard that it promises to support.

use std::ffi::OsString;
use std::process::Command;

use crate::needs::Need;
use crate::suite::{Outcome, Suite};
use crate::workspace;

use super::compile::{Language, WARNINGS, succeed};

const STANDARDS: [(Language, &str, &str); 7] = [
    (Language::C, "c99", "eigentime.h"),
    (Language::C, "c11", "eigentime.h"),
    (Language::C, "gnu17", "eigentime.h"),
    (Language::Cpp, "c++11", "eigentime.h"),
    (Language::Cpp, "c++17", "eigentime.h"),
    (Language::Cpp, "c++17", "eigentime.hpp"),
    (Language::Cpp, "c++20", "eigentime.hpp"),
];

/// The structs that begin with their size.
const GROWING: [&str; 8] = [
    "eigentime_reading",
    "eigentime_sleeper_options",
    "eigentime_slept",
    "eigentime_sleeper_statistics",
    "eigentime_ticker_options",
    "eigentime_ticker_statistics",
    "eigentime_event_options",
    "eigentime_event_statistics",
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (language, standard, header) in STANDARDS {
        let test = format!("library::headers::{header}::{standard}");
        suite.test(test, &[Need::Tool(language.compiler())], move || {
            compiles(language, standard, header)
        });
    }
}

/// Includes it twice, as other headers may, and uses its initializers in a function.
fn compiles(language: Language, standard: &str, header: &str) -> Outcome {
    let mut text = format!("#include <{header}>\n#include <{header}>\nint main(void) {{\n");
    for name in GROWING {
        let initializer = name.to_uppercase();
        text += &format!("{name} a_{name} = {initializer}_INIT;\n");
        text += &format!("if (a_{name}.size != sizeof a_{name}) return 1;\n");
    }
    text += "return (int)eigentime_read(&a_eigentime_reading) + EIGENTIME_VERSION_MAJOR;\n}\n";
    let source = workspace::scratch()?.join("alone.txt");
    std::fs::write(&source, text)?;
    let mut include = OsString::from("-I");
    include.push(workspace::headers());
    let of_language = match language {
        Language::C => "c",
        Language::Cpp => "c++",
    };
    let mut command = Command::new(language.compiler());
    command.args(WARNINGS).arg(format!("-std={standard}")).arg(include);
    // As strict as programs that include it.
    command.args(["-Wconversion", "-Wshadow", "-Wundef", "-fsyntax-only", "-x", of_language]);
    succeed(command.arg(source))?;
    Ok(())
}

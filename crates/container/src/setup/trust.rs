//! A script that makes the environment of an engine's containers trusted: engines can name a
//! runtime, but not all of them can pass it options.

use std::path::{Path, PathBuf};

use super::{Error, Plan, file};

/// Its name, beside the engine's file.
const NAME: &str = "eigentime-oci-trusting-environment";

/// The option that it passes to the runtime.
const OPTION: &str = "--eigentime-trust-environment";

/// The script of the engine with this file.
#[must_use]
pub fn script(engine_file: &Path) -> PathBuf {
    engine_file.with_file_name(NAME)
}

/// Plans the change of the script: it exists with a runtime, and does not without one.
///
/// # Errors
///
/// If it cannot be read.
pub fn plan(engine_file: &Path, runtime: Option<&Path>) -> Result<Plan, Error> {
    let file = std::path::absolute(script(engine_file)).unwrap_or_else(|_| script(engine_file));
    let before = file::read(&file)?;
    let after = runtime.map(|runtime| match runtime.to_str() {
        Some(runtime) => Ok(text(runtime)),
        None => Err(Error::NoText(runtime.to_owned())),
    });
    Ok(Plan { file, before, after: after.transpose()?, keeps: false, is_program: true })
}

fn text(runtime: &str) -> String {
    let quoted = runtime.replace('\'', "'\\''");
    format!(
        "#!/bin/sh\n\
         # Written by `eigentime setup --trust-environment`; `--remove` removes it.\n\
         exec '{quoted}' {OPTION} \"$@\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_may_have_any_name() {
        assert!(text("/a b/o'c").contains("exec '/a b/o'\\''c' --eigentime-trust-environment"));
    }
}

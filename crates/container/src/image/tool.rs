//! External tools that fetch and unpack images.

use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::program::ends_with_caller;

/// A program of another package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name, which is also that of the package.
    pub name: &'static str,
    /// Its purpose.
    pub purpose: &'static str,
}

/// Fetches images from any source.
pub const SKOPEO: Tool = Tool { name: "skopeo", purpose: "fetching an image" };

/// Unpacks images.
pub const UMOCI: Tool = Tool { name: "umoci", purpose: "unpacking an image" };

impl Tool {
    /// Runs the tool with these arguments, variables and input for the purpose `what`, and returns
    /// its output.
    ///
    /// # Errors
    ///
    /// If it is missing, or fails.
    pub fn run(
        self,
        what: impl FnOnce() -> String,
        arguments: &[String],
        variables: &[(&str, String)],
        input: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let mut command = Command::new(self.name);
        command.args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        ends_with_caller(&mut command);
        let output = command.spawn().and_then(|mut child| {
            let mut stdin = child.stdin.take().expect("it has a pipe");
            // A tool that does not read all of it reports the reason itself.
            let _ = stdin.write_all(input);
            drop(stdin);
            child.wait_with_output()
        });
        match output {
            Ok(output) if output.status.success() => Ok(output.stdout),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                Err(Error::Tool { what: what(), said: message(&said).unwrap_or(said) })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let Self { name, purpose } = self;
                Err(Error::NoTool { tool: name, purpose, package: name })
            }
            Err(error) => Err(Error::Tool { what: what(), said: error.to_string() }),
        }
    }
}

/// The message in the last line of a Go program's log: `time="..." level=fatal msg="..."`.
fn message(said: &str) -> Option<String> {
    let quoted = said.lines().last()?.split_once("msg=")?.1;
    serde_json::from_str(quoted).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_for_its_message() {
        let said = "noise\ntime=\"2026\" level=fatal msg=\"no \\\"x\\\" there\"";
        assert_eq!(message(said).as_deref(), Some("no \"x\" there"));
        assert_eq!(message("plain"), None);
        assert_eq!(message(""), None);
    }

    #[test]
    fn a_missing_tool_is_told() {
        let tool = Tool { name: "eigentime-no-such-tool", purpose: "testing" };
        let failed = tool.run(String::new, &[], &[], b"").unwrap_err();
        assert!(matches!(failed, Error::NoTool { tool: "eigentime-no-such-tool", .. }));
    }

    #[test]
    fn a_tool_gets_its_input_and_tells_its_failure() {
        let cat = Tool { name: "cat", purpose: "testing" };
        assert_eq!(cat.run(String::new, &[], &[], b"text").unwrap(), b"text");
        let failed = cat.run(|| "it".to_owned(), &["/no/such".to_owned()], &[], b"").unwrap_err();
        assert!(failed.to_string().starts_with("it: cat: /no/such"), "{failed}");
    }
}

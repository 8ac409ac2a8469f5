//! The command of a container, from the image and the options.

use oci_spec::image::Config;

use crate::error::Error;

/// The default PATH of containers, as in docker.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The program and its arguments. A command replaces the image's command; the image's entry point
/// stays before it, unless another one is named, which also drops the image's command
/// (`docker-run(1)`).
///
/// # Errors
///
/// If there is nothing to run.
pub fn command_line(
    image: &Config,
    entrypoint: Option<&str>,
    command: &[String],
) -> Result<Vec<String>, Error> {
    let default = |words: &Option<Vec<String>>| words.clone().unwrap_or_default();
    let (entrypoint, replaced) = match entrypoint {
        Some("") => (Vec::new(), true),
        Some(named) => (vec![named.to_owned()], true),
        None => (default(image.entrypoint()), false),
    };
    let command = match command {
        [] if replaced => Vec::new(),
        [] => default(image.cmd()),
        given => given.to_vec(),
    };
    let line: Vec<_> = entrypoint.into_iter().chain(command).collect();
    if line.is_empty() { Err(Error::NoCommand) } else { Ok(line) }
}

/// The parts of an environment; later ones override earlier ones.
#[derive(Clone, Copy, Debug)]
pub struct Environment<'a> {
    /// The image's part.
    pub image: &'a Config,
    /// The host name.
    pub hostname: &'a str,
    /// The home directory.
    pub home: &'a str,
    /// Whether there is a terminal.
    pub terminal: bool,
    /// The options' part.
    pub options: &'a [(String, String)],
}

impl Environment<'_> {
    /// The variables, each once.
    #[must_use]
    pub fn variables(&self) -> Vec<String> {
        let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut variables = vec![own("PATH", USUAL_PATH), own("HOSTNAME", self.hostname)];
        variables.extend(self.terminal.then(|| own("TERM", "xterm")));
        variables.push(own("HOME", self.home));
        let image = self.image.env().iter().flatten();
        let image = image.filter_map(|variable| variable.split_once('='));
        let options = self.options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in image.chain(options) {
            match variables.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => value.clone_into(known),
                None => variables.push(own(name, value)),
            }
        }
        variables.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }
}

/// The value of a variable.
#[must_use]
pub fn value<'a>(variables: &'a [String], name: &str) -> &'a str {
    variables
        .iter()
        .find_map(|variable| variable.strip_prefix(name)?.strip_prefix('='))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(entrypoint: &[&str], cmd: &[&str], env: &[&str]) -> Config {
        let words =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let mut image = Config::default();
        image.set_entrypoint(Some(words(entrypoint)));
        image.set_cmd(Some(words(cmd)));
        image.set_env(Some(words(env)));
        image
    }

    #[test]
    fn a_command_takes_the_place_of_the_images() {
        let image = image(&["e"], &["c"], &[]);
        let line = |entrypoint, command: &[&str]| {
            let command: Vec<_> = command.iter().map(|word| (*word).to_owned()).collect();
            command_line(&image, entrypoint, &command).map(|line| line.join(" ")).ok()
        };
        assert_eq!(line(None, &[]).as_deref(), Some("e c"));
        assert_eq!(line(None, &["x", "y"]).as_deref(), Some("e x y"));
        assert_eq!(line(Some("o"), &[]).as_deref(), Some("o"));
        assert_eq!(line(Some("o"), &["x"]).as_deref(), Some("o x"));
        assert_eq!(line(Some(""), &["x"]).as_deref(), Some("x"));
        assert_eq!(line(Some(""), &[]), None);
        assert!(command_line(&Config::default(), None, &[]).is_err());
    }

    #[test]
    fn options_win_over_the_image_and_the_image_over_the_usual() {
        let image = image(&[], &[], &["PATH=/x", "A=1", "B=2=3", "nonsense"]);
        let options = [("A".to_owned(), "4".to_owned()), ("C".to_owned(), String::new())];
        let environment = Environment {
            image: &image,
            hostname: "h",
            home: "/root",
            terminal: true,
            options: &options,
        };
        let variables = environment.variables();
        let wanted = ["PATH=/x", "HOSTNAME=h", "TERM=xterm", "HOME=/root", "A=4", "B=2=3", "C="];
        assert_eq!(variables, wanted);
        assert_eq!(value(&variables, "PATH"), "/x");
        assert_eq!(value(&variables, "PAT"), "");
    }
}

//! `eigentime images`.

use eigentime_container::error::Error;
use eigentime_container::image::cache::{self, Listed};
use eigentime_container::run::{enter, remove_images};

use crate::args::{ImagesAction, ImagesOptions};

/// The exit status of a request that failed.
const NOT_DONE: i32 = 1;

/// Runs the action, prints the result, and returns the exit status.
pub fn run(options: &ImagesOptions) -> i32 {
    match act(options) {
        Ok(text) => {
            print!("{text}");
            0
        }
        Err(error) => {
            eprintln!("eigentime: {error}");
            NOT_DONE
        }
    }
}

fn act(options: &ImagesOptions) -> Result<String, Error> {
    let (state, _) = enter(None)?;
    let all = cache::list(&state)?;
    let removed = match &options.action {
        None => return Ok(if options.json { to_json(&all) } else { table(&all) }),
        Some(ImagesAction::Rm { all: true, .. }) => all,
        Some(ImagesAction::Rm { images: named, .. }) => {
            let found = named.iter().map(|named| cache::find(&all, named).cloned());
            found.collect::<Result<_, _>>()?
        }
    };
    remove_images(&state, &removed)?;
    Ok(String::new())
}

fn to_json(all: &[Listed]) -> String {
    let text = serde_json::to_string_pretty(all).expect("a list is plain data");
    format!("{text}\n")
}

fn table(all: &[Listed]) -> String {
    let line = |image: &Listed| {
        let written = if image.written { "  written to" } else { "" };
        let references = match image.references.is_empty() {
            true => "-".to_owned(),
            false => image.references.join(" "),
        };
        format!("{}  {references}{written}\n", image.short())
    };
    all.iter().map(line).collect()
}

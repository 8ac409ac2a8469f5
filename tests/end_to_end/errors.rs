//! Errors that Eigentime itself reports: status 125, a message with the cause, and the program is
//! not started.

use std::process::Command;

use crate::command::{Finished, run};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::STUCK;
use crate::workspace;

/// Arguments, and the words that the message must contain.
const REFUSED: [(&str, &[&str], &[&str]); 25] = [
    ("offset_is_no_offset", &["--monotonic", "abc"], &["monotonic", "abc"]),
    ("offset_of_unknown_unit", &["--boottime", "5x"], &["boottime", "5x"]),
    ("offset_without_unit", &["--offset", "1d2"], &["offset", "1d2"]),
    ("offset_empty", &["--offset", ""], &["offset"]),
    ("offset_too_large", &["--monotonic", "+1000000000d"], &["monotonic"]),
    ("date_is_no_date", &["--date", "tomorrow"], &["date", "tomorrow"]),
    ("date_month_13", &["--date", "2038-13-01"], &["2038-13-01", "month"]),
    ("date_hour_25", &["--date", "2038-01-19 25:00:00"], &["25:00:00", "hour"]),
    ("date_february_30", &["--date", "2038-02-30"], &["2038-02-30", "day"]),
    ("date_of_unknown_zone", &["--date", "2038-01-19T03:14:07Q"], &["date", "\"Q\""]),
    ("date_epoch_of_letters", &["--date", "@12x"], &["date", "@12x"]),
    ("rate_zero", &["--rate", "0"], &["rate", "--freeze"]),
    ("rate_too_large", &["--rate", "1e7"], &["rate", "1e7"]),
    ("rate_ten_million", &["--rate", "10000000"], &["rate", "0.001", "1000000"]),
    ("rate_too_small", &["--rate", "0.0001"], &["rate", "0.001", "1000000"]),
    ("rate_negative", &["--rate", "-1"], &["rate", "-1"]),
    ("rate_letters", &["--rate", "abc"], &["rate", "abc"]),
    ("rate_nan", &["--rate", "nan"], &["rate", "nan"]),
    ("rate_infinite", &["--rate", "inf"], &["rate", "inf"]),
    ("date_and_offset", &["--date", "2038-01-19", "--offset", "+1d"], &["--date", "--offset"]),
    ("monotonic_below_zero", &["--monotonic", "-100000d"], &["monotonic -100000d", "zero"]),
    ("boottime_below_zero", &["--boottime", "-100000d"], &["boottime -100000d", "zero"]),
    ("offset_before_1970", &["--offset", "-60000d"], &["offset -60000d", "1970"]),
    ("offset_after_2262", &["--offset", "+90000d"], &["offset +90000d", "2262"]),
    ("unknown_option", &["--bogus"], &["--bogus"]),
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (name, options, named) in REFUSED {
        suite.test(format!("errors::{name}"), &[], move || refused(options, named));
    }
    suite.test("errors::no_command", &[], || no_command(&["run"]));
    suite.test("errors::no_command_after_dashes", &[], || {
        no_command(&["run", "--rate", "10", "--"])
    });
    suite.test("errors::no_colour_in_a_pipe", &[], || {
        let ended = eigentime(&["run", "--rate", "abc", "--", "true"])?;
        ended.ensure(!ended.errors.contains('\x1b'), "escape sequences")?;
        Ok(())
    });
    suite.test("errors::help_is_no_error", &[], || {
        let ended = eigentime(&["run", "--help"])?;
        ended.expect_code(0)?;
        for option in ["--monotonic", "--boottime", "--date", "--offset", "--rate", "--freeze"] {
            ended.ensure(
                ended.output().contains(option),
                format_args!("{option} is not in the help"),
            )?;
        }
        Ok(())
    });
}

fn eigentime(arguments: &[&str]) -> Result<Finished, Broken> {
    let mut command = Command::new(workspace::binary());
    run(command.args(arguments), STUCK)
}

fn refused(options: &[&str], named: &[&str]) -> Outcome {
    let ended = eigentime(&[&["run"], options, &["--", "echo", "started"]].concat())?;
    ended.expect_code(125)?;
    ended.ensure(ended.lines.is_empty(), "the program was started")?;
    for word in named {
        ended.ensure(
            ended.errors.contains(word),
            format_args!("the message does not name {word:?}"),
        )?;
    }
    Ok(())
}

fn no_command(arguments: &[&str]) -> Outcome {
    let ended = eigentime(arguments)?;
    ended.expect_code(125)?;
    ended.ensure(
        ended.errors.to_uppercase().contains("COMMAND"),
        "the message does not say what is missing",
    )?;
    Ok(())
}

//! The signals that threads block, as CRIU has written them.
//!
//! A restored process runs until it meets the SIGSTOP that CRIU has sent to it. Its children may
//! have stopped before, and the kernel delivers the resulting SIGCHLD first. So threads block
//! SIGCHLD until they are brought into their timeline.

use nix::libc;

use crate::image::{Changed, Field, PROCESS, THREAD, with_fields, with_messages};

/// The fields of a thread's blocked signals, in these parts. The second takes precedence if
/// present.
const BLOCKED: [(u64, u64); 2] = [(PROCESS, 5), (THREAD, 6)];

const CHILD: u64 = 1 << (libc::SIGCHLD - 1);

/// The thread of an image, from its name.
pub fn thread_of(image: &str) -> Option<i32> {
    image.strip_prefix("core-")?.strip_suffix(".img")?.parse().ok()
}

/// The image of a thread with SIGCHLD blocked, and whether it was unblocked; `None` if it is not
/// understood.
pub fn blocking(image: &[u8]) -> Option<(Vec<u8>, bool)> {
    let mut is_unblocked = None;
    let made = with_messages(image, |thread| {
        with_fields(thread, &mut |part, field| match field {
            Field::Bytes(content) if [PROCESS, THREAD].contains(&part) => {
                let changed = with_fields(content, &mut |number, field| {
                    Some(match field {
                        Field::Number(blocked) if BLOCKED.contains(&(part, number)) => {
                            is_unblocked = Some(blocked & CHILD == 0);
                            Changed::Number(blocked | CHILD)
                        }
                        _ => Changed::Same,
                    })
                });
                changed.map(Changed::Bytes)
            }
            _ => Some(Changed::Same),
        })
    });
    Some((made?, is_unblocked?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::written;

    /// The image of a thread that blocks these, in its process part and in its own.
    fn image(process: Option<u64>, thread: Option<u64>) -> Vec<u8> {
        let mut message = written::number(1, 1);
        for (part, number, blocked) in [(PROCESS, 5, process), (THREAD, 6, thread)] {
            let Some(blocked) = blocked else { continue };
            let fields =
                [written::number(1, 7), written::number(number, blocked), written::bytes(7, b"x")];
            message.extend(written::bytes(part, &fields.concat()));
        }
        written::image(&[message])
    }

    #[test]
    fn only_sigchld_is_blocked_besides() {
        let other = 1 << 63 | 1 << 3;
        for (process, thread, is_unblocked) in [
            (Some(other), None, true),
            (Some(other), Some(other | CHILD), false),
            (None, Some(other), true),
            (Some(0), Some(0), true),
            (Some(CHILD), None, false),
        ] {
            let blocking = |mask: Option<u64>| mask.map(|mask| mask | CHILD);
            let expected = image(blocking(process), blocking(thread));
            assert_eq!(super::blocking(&image(process, thread)), Some((expected, is_unblocked)));
        }
        assert_eq!(super::blocking(&image(None, None)), None, "it does not tell");
    }

    #[test]
    fn threads_are_known_by_names() {
        assert_eq!(thread_of("core-4711.img"), Some(4711));
        assert_eq!(thread_of("core-.img"), None);
        assert_eq!(thread_of("fdinfo-3.img"), None);
    }
}

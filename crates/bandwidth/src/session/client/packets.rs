//! The longest packet that passes: trains of a few are sent until one of a size arrives.

use super::remote::Remote;
use crate::methods::Path;
use crate::session::error::SessionError;
use crate::session::limits::LONGEST_PACKET;
use crate::train::Train;
use crate::units::BitRate;

/// What links carry, by the longest first: jumbo frames, FDDI and what is like it, Ethernet, PPPoE,
/// tunnels of IPv4 and IPv6, WireGuard, mobile networks, the least of IPv6, the least of IPv4 that
/// every host takes.
const SIZES: [u16; 12] = [9000, 8192, 4352, 2002, 1500, 1492, 1480, 1460, 1420, 1400, 1280, 576];

/// How many packets of each size are sent: one that arrives is enough, and all may be lost otherwise.
const PACKETS: u32 = 5;

/// How fast: slow enough for most paths, fast enough not to take long.
const RATE_MEGA: f64 = 10.0;

/// How near to the longest is near enough, as a part of it: between what links of the list carry.
const NEAR: u16 = 16;

/// The longest that passes, where the route that is left by takes so many bytes.
pub(super) fn longest(remote: &mut Remote, route: u16) -> Result<u16, SessionError> {
    let asked = remote.wishes().bytes;
    let most = route.min(LONGEST_PACKET);
    if let Some(asked) = asked.filter(|asked| *asked > most) {
        return Err(SessionError::TooBigToLeave { asked, takes: most });
    }
    let first = asked.unwrap_or(most);
    let smaller = SIZES.into_iter().filter(|size| *size < first);
    let mut fails = None;
    for bytes in std::iter::once(first).chain(smaller) {
        if !does_pass(remote, bytes)? {
            fails = Some(bytes);
            continue;
        }
        let passes = fails.map_or(Ok(bytes), |fails| between(remote, bytes, fails))?;
        return match asked {
            Some(asked) if passes < asked => Err(SessionError::TooBig { asked, passes }),
            _ => Ok(passes),
        };
    }
    Err(SessionError::NoProbes { tried: SIZES[SIZES.len() - 1] })
}

/// About the longest that passes, between one that does and one that does not.
fn between(remote: &mut Remote, mut passes: u16, mut fails: u16) -> Result<u16, SessionError> {
    while fails - passes > passes / NEAR {
        let middle = u16::midpoint(passes, fails);
        *if does_pass(remote, middle)? { &mut passes } else { &mut fails } = middle;
    }
    Ok(passes)
}

fn does_pass(remote: &mut Remote, bytes: u16) -> Result<bool, SessionError> {
    let bounds = remote.bounds();
    let rate = BitRate::mega(RATE_MEGA.min(bounds.rate.bits() / 1e6));
    let train = Train { packets: PACKETS, bytes, rate };
    if train.total_bytes() > bounds.total_bytes {
        let (left, needed) = (bounds.total_bytes, train.total_bytes());
        return Err(SessionError::TooFewBytes { left, needed });
    }
    let trace = remote.train(&train)?;
    Ok(!trace.arrived.is_empty())
}

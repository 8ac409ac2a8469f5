//! The longest packet that passes: trains of a few are sent until one of a size arrives.

use super::remote::Remote;
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

/// The longest that passes, where an interface carries so many bytes.
pub(super) fn longest(remote: &mut Remote, interface: u16) -> Result<u16, SessionError> {
    let asked = remote.wishes().bytes;
    let most = interface.min(LONGEST_PACKET);
    if let Some(asked) = asked.filter(|asked| *asked > most) {
        return Err(SessionError::TooBig { asked, passes: most });
    }
    let first = asked.unwrap_or(most);
    let smaller = SIZES.into_iter().filter(|size| *size < first);
    for bytes in std::iter::once(first).chain(smaller) {
        let rate = BitRate::mega(RATE_MEGA.min(remote.offer().rate.bits() / 1e6));
        let trace = remote.train(&Train { packets: PACKETS, bytes, rate })?;
        if trace.arrived.is_empty() {
            continue;
        }
        return match asked {
            Some(asked) if bytes < asked => Err(SessionError::TooBig { asked, passes: bytes }),
            _ => Ok(bytes),
        };
    }
    Err(SessionError::NoProbes { tried: SIZES[SIZES.len() - 1] })
}

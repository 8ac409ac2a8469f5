//! The search for the longest packet that passes.

use crate::session::error::SessionError;
use crate::session::limits::LONGEST_PACKET;

/// Common MTUs, longest first: jumbo frames, FDDI and similar, Ethernet, PPPoE, tunnels of IPv4 and
/// IPv6, WireGuard, mobile networks, the minimum of IPv6, the minimum of IPv4 that every host
/// accepts.
const SIZES: [u16; 12] = [9000, 8192, 4352, 2002, 1500, 1492, 1480, 1460, 1420, 1400, 1280, 576];

/// The precision of the search, as a fraction of the length, between the MTUs of the list.
const NEAR: u16 = 16;

/// The longest that passes: the requested length, or the longest possible, where the outgoing route
/// takes this many bytes.
pub(super) fn longest(
    asked: Option<u16>,
    route: u16,
    mut does_pass: impl FnMut(u16) -> Result<bool, SessionError>,
) -> Result<u16, SessionError> {
    let most = route.min(LONGEST_PACKET);
    if let Some(asked) = asked.filter(|asked| *asked > most) {
        return Err(SessionError::TooBigToLeave { asked, takes: most });
    }
    let first = asked.unwrap_or(most);
    let smaller = SIZES.into_iter().filter(|size| *size < first);
    let mut fails = None;
    for bytes in std::iter::once(first).chain(smaller) {
        if !does_pass(bytes)? {
            fails = Some(bytes);
            continue;
        }
        let passes = fails.map_or(Ok(bytes), |fails| between(&mut does_pass, bytes, fails))?;
        return match asked {
            Some(asked) if passes < asked => Err(SessionError::TooBig { asked, passes }),
            _ => Ok(passes),
        };
    }
    Err(SessionError::NoProbes { tried: SIZES[SIZES.len() - 1] })
}

/// About the longest that passes, between one that does and one that does not.
fn between(
    does_pass: &mut impl FnMut(u16) -> Result<bool, SessionError>,
    mut passes: u16,
    mut fails: u16,
) -> Result<u16, SessionError> {
    while fails - passes > passes / NEAR {
        let middle = u16::midpoint(passes, fails);
        *if does_pass(middle)? { &mut passes } else { &mut fails } = middle;
    }
    Ok(passes)
}

//! The longest packet that passes: sizes are tried until one does.

use crate::session::error::SessionError;
use crate::session::limits::LONGEST_PACKET;

/// What links carry, by the longest first: jumbo frames, FDDI and what is like it, Ethernet, PPPoE,
/// tunnels of IPv4 and IPv6, WireGuard, mobile networks, the least of IPv6, the least of IPv4 that
/// every host takes.
const SIZES: [u16; 12] = [9000, 8192, 4352, 2002, 1500, 1492, 1480, 1460, 1420, 1400, 1280, 576];

/// How near to the longest is near enough, as a part of it: between what links of the list carry.
const NEAR: u16 = 16;

/// The longest that passes: what was asked for, or the longest that there is, where the route that is
/// left by takes so many bytes.
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

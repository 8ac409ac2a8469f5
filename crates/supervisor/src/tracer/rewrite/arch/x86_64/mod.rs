//! How the instruction of a call is made to go straight to the image.
//!
//! The instruction has two bytes, and a far jump has five. The bytes after it must stay as they are, in
//! the sense that execution that continues there has the same effect: threads return there from calls
//! and signal handlers that began long before. So there are three methods, of which the first possible
//! one is used:
//!
//! - **Overlapping**: the last three bytes of the jump are those that are already there. They determine
//!   the address of the stub, except for 256 bytes. Two bytes change; or one, if the stub can be at the
//!   address that the second byte of the instruction determines as well.
//! - **Near**: a jump of two bytes leads to a place that is never executed (the padding between
//!   functions), and from there another one to the stub.
//! - **Doubled**: the jump is chosen so that from its third byte on it is another jump, which leads to
//!   a copy of the instruction that was there, and from that back.

mod surroundings;

use std::ops::Range;

use super::super::Unsound;
use super::super::patch::{Change, Code, Patch};
use super::super::space::Space;
use crate::arch::{SYSCALL, SYSCALL_LENGTH, far_jump};
use surroundings::Surroundings;

pub use surroundings::AROUND;

/// The opcodes of the two jumps, and the length of the far one.
const SHORT_JUMP: u8 = 0xeb;
const JUMP: u8 = 0xe9;
pub const JUMP_LENGTH: u64 = 5;

/// The reach of the far jump, slightly reduced.
const REACH: u64 = (1 << 31) - (1 << 16);

/// The length of a stub, which passes the return address and the address where the call can be made
/// unchanged, and jumps to the image.
pub const STUB_LENGTH: u64 = 35;

/// The offsets in a stub where the call is made unchanged, and where it returns to the program.
const STUB_CALL: u64 = 28;
pub const STUB_RETURN: u64 = 30;

/// How to rewrite a site so that it jumps to the function of the image at `entry`.
pub fn plan(code: &Code, site: u64, entry: u64, space: &mut Space) -> Result<Patch, Unsound> {
    let around = Surroundings::find(code, site)?;
    if around.has_target_in(site + 1..site + SYSCALL_LENGTH) {
        return Err(Unsound::HasTarget);
    }
    let rewriting = Rewriting { code, around: &around, site, entry };
    let ways = [Rewriting::overlapping, Rewriting::near, Rewriting::doubled];
    ways.iter().find_map(|way| way(&rewriting, space)).ok_or(Unsound::NoRoom)
}

struct Rewriting<'a> {
    code: &'a Code,
    around: &'a Surroundings,
    site: u64,
    entry: u64,
}

impl Rewriting<'_> {
    fn overlapping(&self, space: &mut Space) -> Option<Patch> {
        let end = self.site + JUMP_LENGTH;
        let rest = self.code.bytes_at(self.site + SYSCALL_LENGTH..end)?;
        let first = i32::from_le_bytes([0, rest[0], rest[1], rest[2]]);
        let begin = end.checked_add_signed(first.into())?;
        let [_, second] = SYSCALL;
        let by_one_byte = begin + u64::from(second);
        let stub = space
            .take_in(by_one_byte..=by_one_byte, STUB_LENGTH)
            .or_else(|| space.take_in(begin..=begin + 255, STUB_LENGTH))?;
        let mut after = vec![JUMP, (stub - begin) as u8];
        if stub == by_one_byte {
            after.truncate(1);
        }
        self.patch(stub, vec![(self.site, after)], Vec::new())
    }

    fn near(&self, space: &mut Space) -> Option<Patch> {
        let from = self.site + SYSCALL_LENGTH;
        let reaches = |at: u64| i8::try_from(at.wrapping_sub(from) as i64).ok();
        let fits = |run: &Range<u64>| {
            let jump = run.start..run.start + JUMP_LENGTH;
            (run.end >= jump.end && !self.around.has_target_in(jump)).then_some(())?;
            reaches(run.start).map(|by| (run.start, by))
        };
        let (at, by) = self.around.padding.iter().find_map(fits)?;
        let stub = space.take_near(at + JUMP_LENGTH, REACH, STUB_LENGTH)?;
        let changes = vec![(at, jump(at, stub)?), (self.site, vec![SHORT_JUMP, by as u8])];
        self.patch(stub, changes, Vec::new())
    }

    fn doubled(&self, space: &mut Space) -> Option<Patch> {
        let (site, next) = (self.site, self.site + SYSCALL_LENGTH);
        let length = self.around.next.len() as u64;
        let behind = next + length;
        if length < JUMP_LENGTH
            || !self.around.next_is_movable()
            || self.around.has_target_in(next + 1..behind)
        {
            return None;
        }
        let moved = self.code.bytes_at(next..behind)?;
        // The two bytes that both jumps share, smallest distance first.
        for shared in self.shared_bytes(space) {
            let [low, high] = shared.to_le_bytes();
            let Some(begin) = self.stub_window(shared) else { continue };
            let Some(stub) = space.take_in(begin..=begin + 255, STUB_LENGTH) else { continue };
            // If there is room for the one, there is room for the other next to it.
            let beside = (0..DISTANCES).flat_map(|it| [it, -1 - it]);
            for far in beside.filter_map(|it| shared.checked_add(it)) {
                let [x, y] = far.to_le_bytes();
                let by = i32::from_le_bytes([low, high, x, y]);
                let to = (next + JUMP_LENGTH).checked_add_signed(by.into());
                let Some(to) = to else { continue };
                let Some(copy) = space.take_in(to..=to, length + JUMP_LENGTH) else { continue };
                let mut bytes = moved.to_vec();
                bytes.extend(jump(copy + length, behind)?);
                let rewritten = vec![JUMP, (stub - begin) as u8, JUMP, low, high, x, y];
                return self.patch(stub, vec![(site, rewritten)], vec![(copy, bytes)]);
            }
            space.give_back(stub);
        }
        None
    }

    /// The start of the window for the stub, if these are the bytes that both jumps share.
    fn stub_window(&self, shared: i16) -> Option<u64> {
        let [low, high] = shared.to_le_bytes();
        let first = i32::from_le_bytes([0, JUMP, low, high]);
        (self.site + JUMP_LENGTH).checked_add_signed(first.into())
    }

    /// The shared bytes that lead to free space, smallest distance first, and no more of them than are
    /// worth the time: all programs of the timeline wait in the meantime.
    fn shared_bytes(&self, space: &Space) -> Vec<i16> {
        const MOST: usize = 256;
        let origin = (self.site + JUMP_LENGTH) as i128;
        let (least, most) = (i128::from(i16::MIN), i128::from(i16::MAX));
        let block = |at: u64| ((at as i128 - origin) >> 16).clamp(least, most);
        let reach = self.site.saturating_sub(1 << 31)..self.site.saturating_add(1 << 31);
        // A window of the preceding block may reach into a range.
        let free = space.free_between(reach);
        let blocks = free.map(|it| (block(it.start) - 1).max(least)..=block(it.end - 1));
        let mut shared: Vec<i16> = blocks
            .flat_map(|blocks| {
                let nearest = 0.clamp(*blocks.start(), *blocks.end());
                let half = MOST as i128 / 2;
                let near =
                    (nearest - half).max(*blocks.start())..=(nearest + half).min(*blocks.end());
                near.map(|it| it as i16)
            })
            .collect();
        shared.sort_unstable_by_key(|it| it.unsigned_abs());
        shared.dedup();
        shared.truncate(MOST);
        shared
    }

    /// Returns the patch, with the bytes that were there before.
    fn patch(
        &self,
        stub: u64,
        changes: Vec<(u64, Vec<u8>)>,
        mut room: Vec<(u64, Vec<u8>)>,
    ) -> Option<Patch> {
        room.push((stub, stub_bytes(stub, self.site + SYSCALL_LENGTH, self.entry)?));
        let changes = changes.into_iter().map(|(at, after)| {
            let before = self.code.bytes_at(at..at + after.len() as u64)?.to_vec();
            Some(Change { at, before, after })
        });
        Some(Patch { stub, room, changes: changes.collect::<Option<_>>()? })
    }
}

/// How far from the stub the copy may be, in either direction, in blocks of 64 KiB.
const DISTANCES: i16 = 128;

/// The bytes of a jump at `at`.
fn jump(at: u64, to: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![JUMP];
    bytes.extend(distance(at + JUMP_LENGTH, to)?);
    Some(bytes)
}

fn distance(from: u64, to: u64) -> Option<[u8; 4]> {
    i32::try_from(to.wrapping_sub(from) as i64).ok().map(i32::to_le_bytes)
}

/// The stub at `at` of a call that returns to `back`.
fn stub_bytes(at: u64, back: u64, entry: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(STUB_LENGTH as usize);
    bytes.extend([0x48, 0x8d, 0x0d]); // lea rcx, [rip + …]
    bytes.extend(distance(at + 7, back)?);
    bytes.extend([0x4c, 0x8d, 0x1d]); // lea r11, [rip + …]
    bytes.extend(distance(at + 14, at + STUB_CALL)?);
    bytes.extend(far_jump(entry));
    debug_assert_eq!(bytes.len() as u64, STUB_CALL);
    bytes.extend(SYSCALL);
    bytes.extend(jump(at + STUB_RETURN, back)?);
    debug_assert_eq!(bytes.len() as u64, STUB_LENGTH);
    Some(bytes)
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "one range of several there may be")]
mod tests {
    use std::collections::BTreeMap;

    use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind, Register};

    use super::*;
    use crate::maps::Mapping;
    use crate::tracer::rewrite::space::Pages;

    const ENTRY: u64 = 0x7e90_0000_1234;
    const START: u64 = 0x7f00_0010_0000;

    /// Executable memory, as far as jumps are concerned.
    struct Memory(BTreeMap<u64, u8>);

    /// Where execution arrives.
    #[derive(Debug, PartialEq, Eq)]
    enum Comes {
        /// At the image, with the return address and the address of the unchanged call.
        ToImage { back: u64, as_it_is: u64 },
        /// At this instruction.
        To(u64, Mnemonic),
    }

    impl Memory {
        fn new(code: &Code) -> Self {
            Self((code.start..).zip(code.bytes.iter().copied()).collect())
        }

        fn write(&mut self, patch: &Patch) {
            let changes = patch.changes.iter().map(|it| (it.at, &it.after));
            for (at, bytes) in patch.room.iter().map(|it| (it.0, &it.1)).chain(changes) {
                self.0.extend((at..).zip(bytes.iter().copied()));
            }
        }

        fn at(&self, from: u64) -> Vec<u8> {
            (from..from + 16).map(|at| self.0.get(&at).copied().unwrap_or(0xcc)).collect()
        }

        /// Follows jumps.
        fn execute(&self, mut from: u64) -> Comes {
            let (mut back, mut as_it_is) = (0, 0);
            for _ in 0..10 {
                let bytes = self.at(from);
                let instruction = Decoder::with_ip(64, &bytes, from, DecoderOptions::NONE).decode();
                from = match instruction.mnemonic() {
                    Mnemonic::Jmp if instruction.op0_kind() == OpKind::Memory => {
                        let slot = self.at(instruction.ip_rel_memory_address());
                        assert_eq!(slot[..8], ENTRY.to_le_bytes());
                        return Comes::ToImage { back, as_it_is };
                    }
                    Mnemonic::Jmp => instruction.near_branch_target(),
                    Mnemonic::Lea => {
                        let value = instruction.ip_rel_memory_address();
                        match instruction.op0_register() {
                            Register::RCX => back = value,
                            Register::R11 => as_it_is = value,
                            other => panic!("it changes {other:?}"),
                        }
                        instruction.next_ip()
                    }
                    other => return Comes::To(from, other),
                };
            }
            panic!("it goes in circles")
        }
    }

    fn code_with(behind: &[u8], padding: bool) -> (Code, u64) {
        let mut bytes = vec![0x90; 256];
        bytes.push(0xc3);
        bytes.extend(if padding { [0xcc; 7] } else { [0x90; 7] });
        if !padding {
            // A branch leads to the padding: it is executed.
            bytes.extend([0xeb, 0xf7]);
        }
        bytes.extend([0xb8, 0x07, 0, 0, 0]);
        let site = START + bytes.len() as u64;
        bytes.extend([0x0f, 0x05]);
        bytes.extend(behind);
        bytes.extend([0x50; 64]);
        (Code { start: START, bytes }, site)
    }

    /// The entire address space except these ranges.
    fn space(free: &[Range<u64>]) -> Space {
        let mut begin = 0;
        let mut mappings = Vec::new();
        for range in free.iter().chain(&[1 << 47..1 << 47]) {
            let (access, name) = ("rw-p".to_owned(), String::new());
            mappings.push(Mapping {
                range: begin..range.start,
                access,
                device: (8, 1),
                inode: 1,
                name,
            });
            begin = range.end;
        }
        Space::new(&mappings, 0, Pages::new())
    }

    const COMPARE: [u8; 6] = [0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff];

    /// Rewrites, and returns the number of changes.
    fn rewritten(behind: &[u8], padding: bool, free: &[Range<u64>]) -> Result<usize, Unsound> {
        let (code, site) = code_with(behind, padding);
        let around = Surroundings::find(&code, site).unwrap();
        let patch = plan(&code, site, ENTRY, &mut space(free))?;
        let mut memory = Memory::new(&code);
        let next = memory.execute(site + SYSCALL_LENGTH);
        memory.write(&patch);
        let as_it_is = patch.stub + STUB_CALL;
        assert_eq!(memory.execute(site), Comes::ToImage { back: site + SYSCALL_LENGTH, as_it_is });
        assert_eq!(memory.execute(as_it_is), Comes::To(as_it_is, Mnemonic::Syscall));
        // Execution after the call meets the same instructions, wherever they are.
        let Comes::To(_, mnemonic) = next else { panic!("{next:?}") };
        for from in [site + SYSCALL_LENGTH, patch.stub + STUB_RETURN] {
            let Comes::To(at, met) = memory.execute(from) else { panic!() };
            assert_eq!(met, mnemonic);
            let length = around.next.len() as u64;
            assert_eq!(memory.at(at)[..length as usize], behind[..length as usize]);
            if at != site + SYSCALL_LENGTH {
                let Comes::To(behind, _) = memory.execute(at + length) else { panic!() };
                assert_eq!(behind, site + SYSCALL_LENGTH + length);
            }
        }
        // Nothing has changed except what was reported.
        for change in &patch.changes {
            assert_eq!(
                code.bytes_at(change.at..change.at + change.before.len() as u64),
                Some(&change.before[..])
            );
        }
        Ok(patch.changes.iter().map(|it| it.after.len()).sum())
    }

    #[test]
    fn where_the_bytes_behind_say_is_room() {
        // cmp rax, -4096: 4 MiB farther on.
        let to = START + 0x3d_0000;
        assert_eq!(rewritten(&COMPARE, true, &[to..to + 0x1_0000]), Ok(1));
        // mov [rsp + 40], eax, as in Go.
        let to = START + 0x2444_0000;
        let behind = [0x89, 0x44, 0x24, 0x28, 0xc3];
        assert_eq!(rewritten(&behind, true, &[to..to + 0x1_0000]), Ok(1));
    }

    #[test]
    fn one_byte_is_enough_unless_something_else_is_where_it_leads() {
        let (code, site) = code_with(&COMPARE, true);
        let to = START + 0x3d_0000;
        let mut space = space(&[to..to + 0x1_0000]);
        assert!(plan(&code, site, ENTRY, &mut space).unwrap().is_atomic());
        let other = plan(&code, site, ENTRY, &mut space).unwrap();
        assert!(!other.is_atomic() && other.changes[0].after.len() == 2);
    }

    #[test]
    fn by_what_fills_the_space_between_functions() {
        let to = START - 0x100_0000;
        assert_eq!(rewritten(&COMPARE, true, &[to..to + 0x1000]), Ok(2 + 5));
        assert_eq!(rewritten(&[0xc3], true, &[to..to + 0x1000]), Ok(2 + 5));
        assert_eq!(rewritten(&[0xc3], false, &[to..to + 0x1000]), Err(Unsound::NoRoom));
    }

    #[test]
    fn by_two_jumps_in_one() {
        for to in [START + 0x4000_0000, START - 0x4000_0000] {
            assert_eq!(rewritten(&COMPARE, false, &[to..to + 0x200_0000]), Ok(7));
        }
        let short = [0x89, 0x44, 0x24, 0x28, 0xc3]; // mov [rsp + 40], eax; ret
        let to = START + 0x4000_0000;
        let free = [to..to + 0x200_0000];
        assert_eq!(rewritten(&short, false, &free), Err(Unsound::NoRoom), "too short");
    }

    #[test]
    fn a_site_that_has_target_in_stays() {
        let (mut code, site) = code_with(&COMPARE, true);
        let from = (site + 20 - START) as usize;
        // jmp to the second byte of the call.
        code.bytes[from] = 0xeb;
        code.bytes[from + 1] = (site + 1).wrapping_sub(site + 22) as u8;
        let free = START + 0x3d_0000;
        let planned = plan(&code, site, ENTRY, &mut space(&[free..free + 0x1_0000]));
        assert_eq!(planned, Err(Unsound::HasTarget));
    }
}

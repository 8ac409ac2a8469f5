//! The surroundings of the instruction of a call, read by a decoder, so that nothing is mistaken for an
//! instruction.

use std::collections::BTreeSet;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

use super::super::super::Unsound;
use super::super::super::patch::Code;
use crate::arch::SYSCALL_LENGTH;

/// Bytes of code that are read before and after a site.
pub const AROUND: u64 = 4096;

/// Offsets at which decoding may begin: the first may be in the middle of an instruction, but after
/// some instructions the decoder is in step.
const BEGINNINGS: u64 = 16;

/// Number of valid instructions before the site after which the decoder is in step.
const SETTLED: usize = 16;

/// The alignment of functions and loops.
const ALIGNED: u64 = 16;

/// The findings around a site.
#[derive(Debug)]
pub struct Surroundings {
    /// The instruction after it.
    pub next: Instruction,
    /// The targets of branches.
    targets: BTreeSet<u64>,
    /// Code that is never executed: the padding after an instruction that does not fall through.
    pub padding: Vec<Range<u64>>,
}

impl Surroundings {
    /// Returns the surroundings of the `syscall` instruction at `site`.
    pub fn find(code: &Code, site: u64) -> Result<Self, Unsound> {
        let sound = |begin| Self::decode(code, begin, site);
        (0..BEGINNINGS).find_map(sound).ok_or(Unsound::Undecoded)
    }

    /// Decodes all of the code from a byte on; `None` if the site is then in the middle of another
    /// instruction.
    fn decode(code: &Code, begin: u64, site: u64) -> Option<Self> {
        let bytes = code.bytes.get(begin as usize..)?;
        let mut decoder = Decoder::with_ip(64, bytes, code.start + begin, DecoderOptions::NONE);
        let after = site + SYSCALL_LENGTH;
        let (mut next, mut targets, mut fillers) = (None, BTreeSet::new(), Fillers::default());
        let (mut sound, mut found) = (0, false);
        for instruction in &mut decoder {
            fillers.add(&instruction);
            if instruction.is_invalid() {
                // Data within the code, or the end of the bytes read.
                sound = 0;
                continue;
            }
            sound += 1;
            let at = instruction.ip();
            if at == site {
                // There may be fewer before it if the mapping begins nearby.
                found = instruction.mnemonic() == Mnemonic::Syscall
                    && (sound > SETTLED || site < code.start + AROUND);
            } else if at == after && found {
                next = Some(instruction);
            }
            if at < after && instruction.next_ip() > after {
                return None;
            }
            if is_branch(&instruction) {
                targets.insert(instruction.near_branch_target());
            }
        }
        let padding = fillers.runs.iter().filter_map(|run| padding(run)).collect();
        Some(Self { next: next?, targets, padding })
    }

    /// Whether a branch leads into a range.
    pub fn has_target_in(&self, range: Range<u64>) -> bool {
        self.targets.range(range).next().is_some()
    }

    /// Whether the next instruction has the same effect at any address.
    pub fn next_is_movable(&self) -> bool {
        self.next.flow_control() == FlowControl::Next
            && !self.next.is_ip_rel_memory_operand()
            && self.next.mnemonic() != Mnemonic::Syscall
    }
}

/// Runs of instructions without effect, after one that does not fall through.
#[derive(Default)]
struct Fillers {
    runs: Vec<Vec<Instruction>>,
    /// Whether the last instruction does not fall through, or is one of these.
    ends: bool,
}

impl Fillers {
    /// Adds the next instruction, if it is one of these.
    fn add(&mut self, instruction: &Instruction) {
        let fills = self.ends && matches!(instruction.mnemonic(), Mnemonic::Int3 | Mnemonic::Nop);
        if fills {
            let end = |run: &[Instruction]| run.last().map(Instruction::next_ip);
            match self.runs.last_mut() {
                Some(run) if end(run) == Some(instruction.ip()) => run.push(*instruction),
                _ => self.runs.push(vec![*instruction]),
            }
        }
        self.ends = fills || (!instruction.is_invalid() && !goes_on(instruction));
    }
}

/// The part of a run of such instructions that is never executed.
///
/// An `int3` would stop the program. Instructions without effect may be the beginning of a function
/// that is made to be patched (`-fpatchable-function-entry`, one byte each). They are not if they lead,
/// in as few instructions as assemblers use, to an address to which functions and loops are aligned,
/// and do not begin at one.
fn padding(run: &[Instruction]) -> Option<Range<u64>> {
    let start = run.first()?.ip();
    let is_stop = |it: &&Instruction| it.mnemonic() == Mnemonic::Int3;
    if let Some(last) = run.iter().take_while(is_stop).last() {
        return Some(start..last.next_ip());
    }
    let end = start.next_multiple_of(ALIGNED);
    let mut before = run.iter().take_while(|it| it.ip() < end);
    let is_aligning = start < end
        && before.clone().last().is_some_and(|last| last.next_ip() == end)
        && before.all(|it| it.len() > 1);
    is_aligning.then_some(start..end)
}

/// Whether it is a branch to an address in the instruction.
fn is_branch(instruction: &Instruction) -> bool {
    instruction.near_branch_target() != 0
        && matches!(
            instruction.flow_control(),
            FlowControl::ConditionalBranch
                | FlowControl::UnconditionalBranch
                | FlowControl::Call
                | FlowControl::XbeginXabortXend
        )
}

/// Whether execution may continue at the following instruction.
fn goes_on(instruction: &Instruction) -> bool {
    !matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return
    ) && instruction.mnemonic() != Mnemonic::Ud2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function that contains a call, between two others.
    fn code() -> (Code, u64) {
        let mut bytes = vec![0x90; 64]; // a slide on which the decoder gets in step
        bytes.push(0xc3); // ret
        bytes.extend([0xcc; 7]);
        let site = bytes.len() as u64 + 7;
        bytes.extend([0xb8, 0x07, 0, 0, 0]); // mov eax, 7
        bytes.extend([0x31, 0xd2]); // xor edx, edx
        bytes.extend([0x0f, 0x05]); // syscall
        bytes.extend([0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff]); // cmp rax, -4096
        bytes.extend([0x77, 0x01]); // ja +1
        bytes.push(0xc3); // ret
        bytes.extend([0x0f, 0x0b]); // ud2
        bytes.extend([0x0f, 0x1f, 0x40, 0]); // nop, up to where the next function begins
        bytes.extend([0x66, 0x0f, 0x1f, 0x44, 0, 0, 0xc3]); // nop, ret
        (Code { start: 0x40_0000, bytes }, 0x40_0000 + site)
    }

    #[test]
    fn what_is_around_a_call_is_found() {
        let (code, site) = code();
        let found = Surroundings::find(&code, site).unwrap();
        assert_eq!((found.next.ip(), found.next.len()), (site + 2, 6));
        assert!(found.next_is_movable());
        assert!(!found.has_target_in(site..site + 8));
        assert!(found.has_target_in(site + 11..site + 12), "the branch leads behind the first ret");
        assert_eq!(found.padding, [site - 14..site - 7, site + 13..site + 17]);
    }

    #[test]
    fn where_a_function_may_begin_is_no_padding() {
        // After a ret at 15, so that it begins at 16, or elsewhere; at 26 one that ends at 32.
        let padding_of = |before: usize, nops: &[u8]| {
            let mut bytes = vec![0x50; 64 + before];
            bytes.push(0xc3);
            bytes.extend(nops);
            let site = 0x40_0000 + bytes.len() as u64 + 4;
            bytes.extend([0x50, 0x50, 0x50, 0x50, 0x0f, 0x05, 0xc3]);
            let start = 0x40_0000 + 65 + before as u64;
            let code = Code { start: 0x40_0000, bytes };
            let found = Surroundings::find(&code, site).unwrap().padding;
            found.first().map(|it| (it.start - start, it.end - start))
        };
        const ONES: [u8; 5] = [0x90; 5];
        const LONG: [u8; 5] = [0x0f, 0x1f, 0x44, 0, 0];
        assert_eq!(padding_of(10, &LONG), Some((0, 5)), "it leads to an aligned address");
        assert_eq!(padding_of(10, &ONES), None, "so do these, but no assembler has them so");
        assert_eq!(padding_of(15, &LONG), None, "it begins there");
        assert_eq!(padding_of(3, &LONG), None, "it ends elsewhere");
        assert_eq!(padding_of(10, &[LONG, LONG].concat()), Some((0, 5)), "without what is behind");
        assert_eq!(padding_of(3, &[0xcc; 5]), Some((0, 5)));
        assert_eq!(padding_of(3, &[[0xcc; 5], LONG].concat()), Some((0, 5)));
    }

    #[test]
    fn the_midst_of_an_instruction_is_no_site() {
        // mov eax, 0x050f: the bytes of a call are its operand.
        let mut bytes = vec![0x90; 64];
        bytes.extend([0xb8, 0x0f, 0x05, 0, 0]);
        bytes.extend([0x90; 32]);
        let code = Code { start: 0x1000, bytes };
        // From the middle of the operand on one may read a call, but not from sound code before it.
        let found = Surroundings::find(&code, 0x1000 + 65);
        assert!(matches!(found, Err(Unsound::Undecoded)), "{found:?}");
    }
}

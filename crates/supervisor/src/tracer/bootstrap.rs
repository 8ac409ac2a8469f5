//! The code that a program runs before its first instruction. It replaces the last bytes of the
//! program's kernel vDSO: nothing else in the program that is known to the supervisor can be executed
//! yet.
//!
//! It is a single routine that takes the number and the arguments of a system call from the stack,
//! makes the call, and returns to the address on the stack: the next call, or the image. So all is done
//! in one run that would otherwise be three calls with two stops each. The program creates a pair of
//! sockets and reports them by a call that the filter stops. It receives the shared memory through one
//! of the sockets, while the supervisor borrows the other end; no path is named, so this works in any
//! root directory and any namespace. It then maps the image, whose `boot` continues with the program
//! itself. A call that fails is reported instead.

use std::mem::{offset_of, size_of};

use eigentime_calls::nr;
use eigentime_vdso::{BOOTED_CLOCK, Launch, PAGE, symbols};

use super::mapping::{Control, Message};
use super::plain::{Plain, bytes_of};
use super::tracee::Tracee;
use crate::arch::{Registers, SYSCALL_LENGTH, StackedCall, bootstrap};
use crate::region::Layout;

/// The stack for all steps, from the lowest address up.
#[repr(C)]
pub struct Chain {
    sockets: StackedCall,
    report: StackedCall,
    map: StackedCall,
    /// The stack pointer points here when the image begins.
    launch: Launch,
    message: Message,
}

impl Plain for Chain {}

/// Whether it is the call by which the bootstrap and the image report.
pub fn is_report(registers: &Registers) -> bool {
    registers.nr() == nr::CLOCK_GETTIME && registers.arg(0) as u32 == BOOTED_CLOCK
}

/// The code in a program.
pub struct Bootstrap {
    tracee: Tracee,
    address: u64,
    /// The bytes it replaces.
    original: &'static [u8],
    /// The address of the program's [`Chain`].
    stack: u64,
}

impl Bootstrap {
    /// Returns the bootstrap for a program with such a vDSO at `vdso`; its stack can be used from
    /// `stack`, which is a multiple of 16.
    pub fn new(tracee: Tracee, vdso: u64, bytes: &'static [u8], stack: u64) -> Self {
        // Within one page, as both are multiples of it.
        let within = (bytes.len() - bootstrap().len()) & !7;
        let original = &bytes[within..within + bootstrap().len()];
        Self { tracee, address: vdso + within as u64, original, stack }
    }

    /// Writes the code into the program, the chain to its stack, and the image's address to `slot`.
    pub fn put(&self, layout: Layout, launch: Launch, slot: u64) -> nix::Result<()> {
        let (chain, address) = (self.chain(layout, launch), layout.image().to_ne_bytes());
        self.tracee.write_parts([(self.stack, bytes_of(&chain)), (slot, &address)])?;
        self.tracee.poke_bytes(self.address, bootstrap())
    }

    fn chain(&self, layout: Layout, launch: Launch) -> Chain {
        let at = |offset: usize| self.stack + offset as u64;
        let call = |nr: libc::c_long, args, then| StackedCall {
            nr: nr as u64,
            args,
            offset: 0,
            control: [0; 2],
            // No descriptor.
            descriptor: u64::MAX,
            then,
        };
        let kind = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as u64;
        let pair = at(offset_of!(Chain, report.args)) + 2 * 8;
        let access = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let how = (libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE) as u64;
        let map = [layout.code(), layout.image_end() - layout.code(), access, how];
        let boot = layout.symbol(symbols::BOOT);
        let offset = layout.code() - layout.base();
        Chain {
            sockets: call(
                libc::SYS_socketpair,
                [libc::AF_UNIX as u64, kind, 0, pair],
                self.address,
            ),
            report: call(libc::SYS_clock_gettime, [BOOTED_CLOCK.into(), 0, 0, 0], self.address),
            map: StackedCall { offset, ..call(libc::SYS_mmap, map, boot) },
            launch,
            // The received descriptor becomes an argument of mmap.
            message: Message::new(
                at(offset_of!(Chain, message)),
                at(offset_of!(Chain, map.control)),
            ),
        }
    }

    /// Whether it lies in padding. Then it can stay until the program unmaps the page, or for good
    /// where the kernel seals the vDSO.
    pub fn is_in_padding(&self) -> bool {
        self.original.iter().all(|byte| *byte == 0)
    }

    /// The page that contains it.
    pub fn page(&self) -> u64 {
        self.address & !(PAGE as u64 - 1)
    }

    /// Restores the original bytes.
    pub fn remove(self) -> nix::Result<()> {
        self.tracee.poke_bytes(self.address, self.original)
    }

    /// Makes it create the sockets and report.
    pub fn make_sockets(&self, mut registers: Registers) -> Registers {
        registers.jump(self.address);
        registers.set_stack(self.stack);
        registers
    }

    /// The sockets that it has created.
    pub fn sockets(report: &Registers) -> [u32; 2] {
        let pair = report.arg(2);
        [pair as u32, (pair >> 32) as u32]
    }

    /// Makes it receive the shared memory from the second of its sockets instead of reporting, map the
    /// image, and run that.
    pub fn map_image(&self, mut report: Registers, [first, second]: [u32; 2]) -> Registers {
        let header = self.stack + offset_of!(Chain, message) as u64;
        let flags = libc::MSG_CMSG_CLOEXEC as u64;
        let args = [second.into(), header, flags, 0, 0, 0];
        report.call(report.ip() - SYSCALL_LENGTH, libc::SYS_recvmsg, args);
        report.set_sockets([first, second]);
        report
    }
}

const _: () = {
    let control = offset_of!(StackedCall, control);
    assert!(offset_of!(StackedCall, descriptor) - control == offset_of!(Control, descriptor));
    assert!(size_of::<Control>() == offset_of!(Control, descriptor) + 8);
    // The stack alignment of the ABI.
    assert!(offset_of!(Chain, launch).is_multiple_of(16));
};

//! The code that a program runs before its first instruction, in place of the last bytes of its
//! kernel's vDSO: nothing else of it that is known to us can be executed yet.
//!
//! It is one routine that takes the number and the arguments of a system call from the stack, makes
//! it, and returns to what the stack says: the next call, or the image. So all is done in one go that
//! would otherwise be three calls with two stops each. The program makes itself a pair of sockets and
//! reports that by a call that the filter stops; it takes the shared memory from one of the sockets,
//! whose other end the supervisor borrows meanwhile, so that no path is named and it works in any
//! root directory and any namespace; and it maps the image, whose `boot` goes on to the program
//! itself. A call that fails is reported instead.

use std::mem::{offset_of, size_of};

use eigentime_calls::nr;
use eigentime_vdso::{BOOTED_CLOCK, Launch, PAGE, symbols};

use super::mapping::{Control, Message};
use super::plain::{Plain, bytes_of};
use super::tracee::Tracee;
use crate::arch::{Registers, SYSCALL_LENGTH, StackedCall, bootstrap};
use crate::region::Layout;

/// The stack for all of it, from the lowest address on.
#[repr(C)]
pub struct Chain {
    sockets: StackedCall,
    report: StackedCall,
    map: StackedCall,
    /// Here the stack pointer is when the image begins.
    launch: Launch,
    message: Message,
}

impl Plain for Chain {}

/// Is it the call by which the bootstrap and the image report?
pub fn is_report(registers: &Registers) -> bool {
    registers.nr() == nr::CLOCK_GETTIME && registers.arg(0) as u32 == BOOTED_CLOCK
}

/// The code in a program.
pub struct Bootstrap {
    tracee: Tracee,
    address: u64,
    /// What is there otherwise.
    original: &'static [u8],
    /// Where the program's [`Chain`] is.
    stack: u64,
}

impl Bootstrap {
    /// For a program with such a vDSO at `vdso`; its stack can be used from `stack` on, which is a
    /// multiple of 16.
    pub fn new(tracee: Tracee, vdso: u64, bytes: &'static [u8], stack: u64) -> Self {
        // In one page, as those are multiples of it.
        let within = (bytes.len() - bootstrap().len()) & !7;
        let original = &bytes[within..within + bootstrap().len()];
        Self { tracee, address: vdso + within as u64, original, stack }
    }

    /// Puts the code into the program, the chain on its stack, and the image's address to `slot`.
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
            // Its descriptor becomes an argument of mmap.
            message: Message::new(
                at(offset_of!(Chain, message)),
                at(offset_of!(Chain, map.control)),
            ),
        }
    }

    /// Is there nothing else where it is put? Then it can stay until the program lets go of the page,
    /// or for good where the kernel seals the vDSO.
    pub fn is_in_padding(&self) -> bool {
        self.original.iter().all(|byte| *byte == 0)
    }

    /// The page that it is put into.
    pub fn page(&self) -> u64 {
        self.address & !(PAGE as u64 - 1)
    }

    /// Puts back what was there.
    pub fn remove(self) -> nix::Result<()> {
        self.tracee.poke_bytes(self.address, self.original)
    }

    /// Has it make the sockets and report.
    pub fn make_sockets(&self, mut registers: Registers) -> Registers {
        registers.jump(self.address);
        registers.set_stack(self.stack);
        registers
    }

    /// The sockets that it has made.
    pub fn sockets(report: &Registers) -> [u32; 2] {
        let pair = report.arg(2);
        [pair as u32, (pair >> 32) as u32]
    }

    /// Has it take the shared memory from the second of its sockets instead of reporting, map the
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
    // The ABI's alignment of the stack.
    assert!(offset_of!(Chain, launch).is_multiple_of(16));
};

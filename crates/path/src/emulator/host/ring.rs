//! The ring to which the kernel writes packets (packet(7), PACKET_RX_RING, TPACKET_V2).
//!
//! A packet stays where the kernel has put it until it has been sent: the ring also implements the
//! path's delay, and nothing is copied.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{tpacket_req, tpacket_versions, tpacket2_hdr};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::calls;
use super::frame::{BEFORE_TAG, Header, TAG, write_tag};

/// The maximum overhead before a packet in its slot: `tpacket2_hdr`, `sockaddr_ll`, the offload
/// header, and padding.
const BEFORE: usize = 128;
/// An Ethernet header with two VLAN tags.
const LINK_HEADER: usize = 22;
/// The kernel allocates memory in blocks of this size, and a slot may not span two of them.
const BLOCK: usize = 1 << 18;
/// Marks a slot as taken, in place of the kernel's status that it is ours. To the kernel such a
/// slot is not its own either; it never sets this bit without TP_STATUS_USER.
const HELD: u32 = libc::TP_STATUS_COPY;

/// The memory shared with the kernel.
#[derive(Debug)]
pub struct Ring {
    memory: NonNull<u8>,
    size: usize,
    slot_size: usize,
    slots: usize,
    /// Where the next packet arrives.
    next: usize,
}

/// A packet in the ring, preceded by its offload header. It must be given back.
#[derive(Debug)]
pub struct Slot {
    index: usize,
    start: usize,
    len: usize,
}

/// The kernel's description of a packet.
#[derive(Debug)]
pub struct Taken {
    /// Its slot.
    pub slot: Slot,
    /// When it arrived, on CLOCK_REALTIME in nanoseconds.
    pub stamp_ns: i64,
    /// It is truncated; the socket's queue has all of it.
    pub is_queued: bool,
    /// It is not truncated.
    pub is_whole: bool,
    /// The VLAN tag that was removed from it: its type, and its value.
    pub vlan: Option<(u16, u16)>,
}

// SAFETY: the memory belongs to the ring alone, until it is dropped.
unsafe impl Send for Ring {}

impl Ring {
    /// Creates a ring with room for at least this many packets of up to this many bytes of IP. The
    /// socket must not receive anything yet.
    pub fn new(socket: impl AsFd, mtu: u32, slots: usize) -> io::Result<Self> {
        let slot_size = Self::slot_size(mtu);
        let block_size = BLOCK.max(slot_size);
        let blocks = (slots * slot_size).div_ceil(block_size);
        let size = blocks * block_size;
        let version = tpacket_versions::TPACKET_V2;
        calls::set_option(&socket, libc::PACKET_VERSION, &version)?;
        let wanted = tpacket_req {
            tp_block_size: block_size as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: slot_size as u32,
            tp_frame_nr: (size / slot_size) as u32,
        };
        calls::set_option(&socket, libc::PACKET_RX_RING, &wanted)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping, at an address chosen by the kernel.
        let memory = unsafe { mmap(null_mut(), size, access, flags, &socket, 0) }?;
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { memory, size, slot_size, slots: size / slot_size, next: 0 })
    }

    /// The slot size for a packet.
    pub fn slot_size(mtu: u32) -> usize {
        (BEFORE + LINK_HEADER + mtu as usize).next_power_of_two()
    }

    /// The next packet, if one has arrived.
    pub fn take(&mut self) -> Option<Taken> {
        let status = self.status(self.next).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the header is at the beginning of the slot, which is aligned for it, and the
        // kernel does not write it while the slot is ours; the load above made it visible.
        let header = unsafe { self.begin(self.next).cast::<tpacket2_hdr>().read() };
        self.status(self.next).store(HELD, Ordering::Relaxed);
        let start = usize::from(header.tp_mac) - Header::BYTES;
        let len = header.tp_snaplen as usize + Header::BYTES;
        // The kernel's values must not lead out of the slot.
        let len = len.min(self.slot_size - start);
        let slot = Slot { index: self.next, start, len };
        self.next = (self.next + 1) % self.slots;
        let has = |flag| status & flag != 0;
        let tag_type =
            if has(libc::TP_STATUS_VLAN_TPID_VALID) { header.tp_vlan_tpid } else { 0x8100 };
        Some(Taken {
            slot,
            stamp_ns: i64::from(header.tp_sec) * 1_000_000_000 + i64::from(header.tp_nsec),
            is_queued: has(libc::TP_STATUS_COPY),
            is_whole: header.tp_snaplen == header.tp_len,
            vlan: has(libc::TP_STATUS_VLAN_VALID).then_some((tag_type, header.tp_vlan_tci)),
        })
    }

    /// The packet, preceded by its offload header.
    pub fn bytes(&self, slot: &Slot) -> &[u8] {
        // SAFETY: the bytes are in the slot, which is ours until it is given back.
        unsafe { std::slice::from_raw_parts(self.begin(slot.index).add(slot.start), slot.len) }
    }

    /// Restores a VLAN tag.
    pub fn put_tag(&mut self, slot: &mut Slot, tag: (u16, u16)) {
        debug_assert!(slot.start >= size_of::<tpacket2_hdr>() + TAG);
        slot.start -= TAG;
        slot.len += TAG;
        let begin = self.begin(slot.index);
        // SAFETY: the bytes are in the slot, after the kernel's header, and the slot is ours.
        let bytes = unsafe { std::slice::from_raw_parts_mut(begin.add(slot.start), slot.len) };
        bytes.copy_within(TAG..TAG + BEFORE_TAG, 0);
        write_tag(bytes, tag);
    }

    /// Gives a slot back to the kernel.
    pub fn give_back(&mut self, slot: Slot) {
        // Pairs with the kernel's barrier before it writes: our reads are complete before that.
        self.status(slot.index).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }

    fn begin(&self, index: usize) -> *mut u8 {
        debug_assert!(index < self.slots);
        // SAFETY: the memory has this many slots.
        unsafe { self.memory.as_ptr().add(index * self.slot_size) }
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: a slot begins with its status, which the kernel also accesses atomically.
        unsafe { AtomicU32::from_ptr(self.begin(index).cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: no references remain: the result of `bytes` borrows the ring.
        let unmapped = unsafe { munmap(self.memory.as_ptr().cast(), self.size) };
        debug_assert!(unmapped.is_ok());
    }
}

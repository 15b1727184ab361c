//! Receive buffers that the kernel picks from, shared by all connections of one thread.
//!
//! Source: io_uring_register_buf_ring(3). A ring of descriptors lies in memory that the kernel reads:
//! it takes a buffer from the front for each arrival, and we put it back behind the tail.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// The only group of buffers in a ring.
pub const GROUP: u16 = 0;

/// A power of two. Each is given back before the next system call, so few are ever in use.
const COUNT: u16 = 256;
const SIZE: usize = 8 * 1024;
const DESCRIPTORS: usize = COUNT as usize * size_of::<BufRingEntry>();
const MEMORY: usize = DESCRIPTORS + COUNT as usize * SIZE;

pub struct Buffers {
    memory: *mut u8,
    tail: u16,
}

impl Buffers {
    /// Makes the buffers and tells the ring of them; they must outlive it.
    pub fn register(submitter: &Submitter<'_>) -> io::Result<Buffers> {
        // SAFETY: a fresh private mapping, which nothing else knows of.
        let memory = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            mmap_anonymous(std::ptr::null_mut(), MEMORY, access, MapFlags::PRIVATE)?
        };
        let mut buffers = Buffers { memory: memory.cast(), tail: 0 };
        // SAFETY: the descriptors are page-aligned and stay mapped until `buffers` is dropped.
        unsafe { submitter.register_buf_ring_with_flags(memory as u64, COUNT, GROUP, 0)? };
        for id in 0..COUNT {
            buffers.put(id);
        }
        buffers.publish();
        Ok(buffers)
    }

    /// The first `n` bytes of a buffer that a completion has named.
    pub fn bytes(&self, id: u16, n: usize) -> &[u8] {
        let n = n.min(SIZE);
        let at = DESCRIPTORS + (id % COUNT) as usize * SIZE;
        // SAFETY: within the mapping; the kernel does not write to it until it is given back.
        unsafe { std::slice::from_raw_parts(self.memory.add(at), n) }
    }

    /// The kernel may use this buffer again.
    pub fn give_back(&mut self, id: u16) {
        self.put(id);
        self.publish();
    }

    fn put(&mut self, id: u16) {
        let slot = (self.tail % COUNT) as usize;
        // SAFETY: `slot` is below COUNT, and a descriptor behind the tail is ours to write.
        unsafe {
            let entry = &mut *self.memory.cast::<BufRingEntry>().add(slot);
            entry.set_addr(self.memory.add(DESCRIPTORS + id as usize * SIZE) as u64);
            entry.set_len(SIZE as u32);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&self) {
        // SAFETY: the tail lies in the first descriptor; the kernel reads it with acquire order.
        unsafe {
            let tail = BufRingEntry::tail(self.memory.cast::<BufRingEntry>());
            (*tail.cast::<AtomicU16>()).store(self.tail, Ordering::Release);
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the ring that knew of it has been dropped before.
        let _ = unsafe { munmap(self.memory.cast(), MEMORY) };
    }
}

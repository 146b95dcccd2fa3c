//! TLBs as lists of pages, and how many loads a walk makes.

#![allow(dead_code, reason = "each test program uses a part of it")]

use kwalk::machine::Tlb;

/// Tables that a walk asks for a page: 4 of 9 bits each cover 48 bits of address with a page of 12; a
/// larger page is an entry of a higher one.
fn tables(page_bytes: u64) -> u64 {
    (48 - u64::from(page_bytes.trailing_zeros())) / 9
}

/// Each of the guest's loads, and the page itself, is at an address that the host's tables translate.
pub fn loads_of_walk(guest_bytes: u64, host_bytes: Option<u64>) -> u64 {
    let guest = tables(guest_bytes);
    host_bytes.map_or(guest, |host| (guest + 1) * (tables(host) + 1) - 1)
}

/// One TLB: sets of pages with their sizes, the youngest last.
pub struct List {
    ways: usize,
    sets: Vec<Vec<(u64, u64)>>,
}

impl List {
    /// Empty.
    pub fn new(tlb: &Tlb) -> List {
        List {
            ways: tlb.ways as usize,
            sets: vec![Vec::new(); tlb.sets as usize],
        }
    }

    /// Whether it had the page; it has it then.
    pub fn ask(&mut self, bytes: u64, page: u64) -> bool {
        let at = page as usize % self.sets.len();
        let set = &mut self.sets[at];
        let had = set.contains(&(bytes, page));
        set.retain(|entry| *entry != (bytes, page));
        set.push((bytes, page));
        if set.len() > self.ways {
            set.remove(0);
        }
        had
    }
}

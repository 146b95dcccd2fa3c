//! Page walks: which loads of table entries a missing translation costs.
//!
//! Tables have 512 entries of 8 bytes a page, level by level, as on x86-64 and on arm64 with 4 KiB
//! granules; a page of 2^21 or 2^30 bytes is an entry of the second or third level from below. The
//! tables' own frames are drawn by the seed. Page-walk caches, one for each level above the lowest,
//! spare the loads down to it; in a guest each load, and the page at the end, needs a walk of the
//! host's tables first, with page-walk caches of their own of the same size.
//!
//! Not modelled: five-level tables, granules of 16 and 64 KiB (their tables are walked as those of
//! 4 KiB, by page number), contiguous-entry hints, accessed and dirty bits, walks that overlap or
//! queue, a TLB for the host's translations of table pages beyond the page-walk caches.

use kernels::arena::Random;

use super::page_map::Frame;

/// Levels of tables; 0 is the lowest.
const LEVELS: usize = 4;
/// Most loads of a walk: those of a guest's tables, each after those of the host's, and the host's for
/// the page itself.
pub(super) const MOST_LOADS: usize = LEVELS * (LEVELS + 2);
/// `log2` of the entries of a table.
const INDEX_BITS: u32 = 9;
const ENTRY_BYTES_SHIFT: u32 = 3;
const PAGE_SHIFT: u32 = 12;
/// Tables lie here in physical memory: beyond the frames of data.
const TABLES: u64 = 1 << 53;
/// The tables of a level have a region of `2^REGION_BITS` bytes.
const REGION_BITS: u32 = 44;
/// Bits of an address that tables translate.
const ADDRESS_BITS: u32 = 48;

/// A small fully associative LRU of table entries.
#[derive(Clone, Debug)]
struct Recent {
    most: usize,
    /// Most recent last.
    entries: Vec<u64>,
}

impl Recent {
    fn has(&mut self, entry: u64) -> bool {
        let Some(at) = self.entries.iter().rposition(|e| *e == entry) else {
            return false;
        };
        let entry = self.entries.remove(at);
        self.entries.push(entry);
        true
    }

    fn add(&mut self, entry: u64) {
        if self.entries.len() == self.most {
            self.entries.remove(0);
        }
        self.entries.push(entry);
    }
}

/// The tables of one address space and their page-walk caches.
#[derive(Clone, Debug)]
struct Tables {
    frames: Frame,
    region: u64,
    /// Of the levels from 1 on.
    caches: Vec<Recent>,
}

impl Tables {
    fn new(region: u64, cache_entries: &[u32], random: &mut Random) -> Tables {
        let cache = |most: &u32| Recent {
            most: *most as usize,
            entries: Vec::with_capacity(*most as usize),
        };
        Tables {
            frames: Frame::new(PAGE_SHIFT, REGION_BITS, random),
            region,
            caches: cache_entries.iter().map(cache).collect(),
        }
    }

    /// Addresses of the entries to load for `addr` in a page of `2^page_shift` bytes, the highest
    /// table's first.
    fn walk(&mut self, addr: u64, page_shift: u32, loads: &mut Vec<u64>) {
        let addr = addr & ((1 << ADDRESS_BITS) - 1);
        let lowest = ((page_shift.saturating_sub(PAGE_SHIFT)) / INDEX_BITS) as usize;
        let number = |level: usize| {
            let above = level.saturating_sub(lowest) as u32;
            addr >> (page_shift + INDEX_BITS * above)
        };
        let mut top = LEVELS;
        for level in lowest + 1..LEVELS {
            // The cache of level 1 spares all but the load of level 0.
            if let Some(cache) = self.caches.get_mut(level - 1)
                && cache.has(number(level))
            {
                top = level;
                break;
            }
        }
        for level in (lowest..top).rev() {
            if level > lowest
                && let Some(cache) = self.caches.get_mut(level - 1)
            {
                cache.add(number(level));
            }
            let entry = self.frames.of(number(level) << ENTRY_BYTES_SHIFT);
            loads.push(TABLES | (self.region + level as u64) << REGION_BITS | entry);
        }
    }

    fn forget(&mut self) {
        self.caches
            .iter_mut()
            .for_each(|cache| cache.entries.clear());
    }
}

/// All tables that a core walks.
#[derive(Clone, Debug)]
pub struct Walker {
    own: Tables,
    /// The host's, and `log2` of its pages.
    host: Option<(Tables, u32)>,
    loads: Vec<u64>,
    own_loads: Vec<u64>,
}

impl Walker {
    /// `cache_entries` of the page-walk caches, the lowest first; `host_page_bytes` in a guest.
    pub fn new(cache_entries: &[u32], host_page_bytes: Option<u64>, seed: u64) -> Walker {
        // Another draw than that of the data's frames.
        let mut random = Random(seed ^ 0x7461_626c_6573);
        Walker {
            own: Tables::new(0, cache_entries, &mut random),
            host: host_page_bytes.map(|bytes| {
                let tables = Tables::new(LEVELS as u64, cache_entries, &mut random);
                (tables, bytes.trailing_zeros())
            }),
            loads: Vec::with_capacity(MOST_LOADS),
            own_loads: Vec::with_capacity(LEVELS),
        }
    }

    /// Physical addresses that the walk for `addr`, in a page of `2^page_shift` bytes, loads from, in
    /// order: each waits for the one before. `lies_at`: where its tables say that `addr` lies; the
    /// host's tables go by that, and not by where the host has it.
    pub fn walk(&mut self, addr: u64, page_shift: u32, lies_at: u64) -> &[u64] {
        self.loads.clear();
        let Some((host, host_shift)) = &mut self.host else {
            self.own.walk(addr, page_shift, &mut self.loads);
            return &self.loads;
        };
        self.own_loads.clear();
        self.own.walk(addr, page_shift, &mut self.own_loads);
        for load in &self.own_loads {
            host.walk(*load, *host_shift, &mut self.loads);
            self.loads.push(*load);
        }
        host.walk(lies_at, *host_shift, &mut self.loads);
        &self.loads
    }

    /// Forget what the page-walk caches hold.
    pub fn forget(&mut self) {
        self.own.forget();
        if let Some((host, _)) = &mut self.host {
            host.forget();
        }
    }
}

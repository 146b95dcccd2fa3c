//! An arena in host memory: each region on the page size asked for, verified, refusals recorded.

use crate::native::{between, smaps};
use kernels::arena::{Arena, Region};
use kernels::memory::Addr;
use memmap2::{Advice, MmapMut, MmapOptions, MmapRaw};
use std::{fmt, fs, str::FromStr};

/// Page size that backs a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pages {
    /// Base pages: 4 KiB where Linux was built so, no transparent huge pages.
    FourK,
    /// Transparent huge pages, advised before the first touch; 2 MiB with 4 KiB base pages.
    Thp,
    /// 2 MiB pages of the hugetlb pool.
    Hugetlb2M,
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pages::FourK => "4k",
            Pages::Thp => "thp",
            Pages::Hugetlb2M => "hugetlb-2m",
        })
    }
}

/// A page size that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pages = \"{0}\" is unknown; one of: 4k, thp, hugetlb-2m")]
pub struct UnknownPages(pub String);

impl FromStr for Pages {
    type Err = UnknownPages;

    fn from_str(text: &str) -> Result<Pages, UnknownPages> {
        [Pages::FourK, Pages::Thp, Pages::Hugetlb2M]
            .into_iter()
            .find(|p| p.to_string() == text)
            .ok_or_else(|| UnknownPages(text.into()))
    }
}

/// Linux gave no memory at all.
#[derive(Debug, thiserror::Error)]
#[error(
    "Linux refused to map {bytes} bytes for region {region:?}: {source}; \
     a lower limit applies here (ulimit -v, memory.max), the model backend needs none"
)]
pub struct MapError {
    /// Region.
    pub region: Region,
    /// Bytes asked for.
    pub bytes: u64,
    /// Linux's answer.
    pub source: std::io::Error,
}

/// One region as it lies in host memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedRegion {
    /// Region.
    pub region: Region,
    /// Host address of the image's first byte; a multiple of 2 MiB, as the nominal one is.
    pub host_start: u64,
    /// Length of the image in bytes.
    pub bytes: u64,
    /// Pages asked for; always `4k` for [`Region::PerCpu`].
    pub asked: Pages,
    /// Bytes that lie in huge pages, of the mapped length (the image rounded up to 2 MiB).
    pub got_huge_bytes: u64,
    /// Pages got: huge only if all of the image lies in such pages.
    pub got: Pages,
    /// Why `got` is not `asked`, or what else is out of the ordinary.
    pub note: Option<String>,
}

/// The regions of an arena in host memory. Dropping it unmaps them.
#[derive(Debug)]
pub struct Mapped {
    /// What was asked and what was got, in address order; regions without an image are absent.
    pub regions: Vec<MappedRegion>,
    moved_by: [u64; 4],
    memory: Vec<Block>,
}

const HUGE_BYTES: usize = 2 << 20;
const GUARD_BYTES: usize = 4096;

/// A mapping, of which `len` bytes from `offset` on are in use and 2 MiB aligned.
#[derive(Debug)]
struct Block {
    map: MmapRaw,
    offset: usize,
    len: usize,
}

/// Map every region of `arena` with `pages` ([`Region::PerCpu`] always with `4k`), copy the images
/// and move the pointers in them, touch all of it, and verify the page sizes.
///
/// A page size that Linux refuses falls back to the next smaller one; `note` then says why.
pub fn map(arena: &Arena, pages: Pages) -> Result<Mapped, MapError> {
    let mut mapped = Mapped {
        regions: Vec::new(),
        moved_by: [0; 4],
        memory: Vec::new(),
    };
    let mut fresh = Vec::new();
    for region in Region::ALL {
        let image = arena.image(region);
        if image.bytes.is_empty() {
            continue;
        }
        let asked = match region {
            Region::PerCpu => Pages::FourK,
            Region::Slab | Region::Static | Region::Other => pages,
        };
        let memory = allocate(image.bytes.len(), asked).map_err(|source| MapError {
            region,
            bytes: image.bytes.len() as u64,
            source,
        })?;
        mapped.moved_by[region as usize] = memory.host_start().wrapping_sub(image.start.0);
        fresh.push((region, asked, memory));
    }
    let moved = arena.relocated(mapped.moved_by);
    for (region, asked, mut memory) in fresh {
        let image = &moved.image(region).bytes;
        memory.bytes()[..image.len()].copy_from_slice(image);
        let seen = smaps::backing(memory.host_start(), memory.len as u64);
        mapped
            .regions
            .push(verify(region, asked, image.len() as u64, &memory, seen));
        mapped.memory.push(Block {
            map: memory.map.into(),
            offset: memory.offset,
            len: memory.len,
        });
    }
    Ok(mapped)
}

impl Mapped {
    /// Whether `arena`, asked onto the same pages, would lie in as much memory as this.
    #[must_use]
    pub fn fits(&self, arena: &Arena, pages: Pages) -> bool {
        let images = Region::ALL.map(|region| (region, arena.image(region).bytes.len()));
        let mut images = images.iter().filter(|(_, bytes)| *bytes > 0);
        let all = self.regions.iter().zip(&self.memory).all(|(had, block)| {
            let asked = if had.region == Region::PerCpu {
                Pages::FourK
            } else {
                pages
            };
            images.next().is_some_and(|(region, bytes)| {
                (*region, asked) == (had.region, had.asked)
                    && bytes.next_multiple_of(HUGE_BYTES) == block.len
            })
        });
        all && images.next().is_none()
    }

    /// The same memory with the images of `arena`, which [`fits`](Mapped::fits).
    ///
    /// # Panics
    /// If it does not fit.
    #[must_use]
    pub fn refilled(mut self, arena: &Arena) -> Mapped {
        for (had, block) in self.regions.iter().zip(&self.memory) {
            let start = arena.image(had.region).start.0;
            let host_start = block.map.as_ptr().expose_provenance() as u64 + block.offset as u64;
            self.moved_by[had.region as usize] = host_start.wrapping_sub(start);
        }
        let moved = arena.relocated(self.moved_by);
        for (had, block) in self.regions.iter_mut().zip(&mut self.memory) {
            let image = &moved.image(had.region).bytes;
            assert!(image.len() <= block.len, "{:?} does not fit", had.region);
            between::fill_mapped(&mut block.map, block.offset, image);
            had.bytes = image.len() as u64;
        }
        self
    }

    /// Host address of the nominal address `addr`.
    ///
    /// # Panics
    /// If `addr` lies in no region.
    #[inline]
    #[must_use]
    pub fn host(&self, addr: Addr) -> u64 {
        let region = Region::of(addr).expect("a mapped address lies in a region");
        addr.0.wrapping_add(self.moved_by[region as usize])
    }

    /// What was added to the addresses of each region, indexed by it.
    #[must_use]
    pub fn moved_by(&self) -> [u64; 4] {
        self.moved_by
    }

    /// Write back and drop the lines of `bytes` bytes at `addr` from all caches. `Err` says why
    /// this processor cannot.
    ///
    /// # Panics
    /// If the range is not mapped.
    pub fn flush(&self, addr: Addr, bytes: u64) -> Result<(), String> {
        let (map, offset) = self.place(addr, bytes);
        between::flush_mapped(map, offset, bytes as usize)
    }

    /// Read one word of each line of `bytes` bytes at `addr`: other data that pushes a kernel's
    /// lines out.
    ///
    /// # Panics
    /// If the range is not mapped.
    pub fn touch(&self, addr: Addr, bytes: u64) {
        let (map, offset) = self.place(addr, bytes);
        between::touch_mapped(map, offset, bytes as usize);
    }

    fn place(&self, addr: Addr, bytes: u64) -> (&MmapRaw, usize) {
        let host = self.host(addr);
        self.memory
            .iter()
            .find_map(|b| {
                let start = b.map.as_ptr().expose_provenance() as u64;
                let first = start + b.offset as u64;
                let inside = first <= host && host + bytes <= first + b.len as u64;
                inside.then(|| (&b.map, (host - start) as usize))
            })
            .unwrap_or_else(|| panic!("{bytes} bytes at {addr} are not mapped"))
    }
}

/// Fresh anonymous memory: `len` bytes, a multiple of 2 MiB, from `offset` on, which is so aligned.
pub(crate) struct Memory {
    map: MmapMut,
    offset: usize,
    len: usize,
    /// What was refused on the way here.
    pub(crate) refused: Vec<String>,
}

impl Memory {
    /// Host address of the first usable byte.
    pub(crate) fn host_start(&self) -> u64 {
        self.map.as_ptr().expose_provenance() as u64 + self.offset as u64
    }

    /// The usable bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.map[self.offset..self.offset + self.len]
    }
}

/// At least `bytes` bytes on `pages`, or on the next smaller pages, with a note in `refused`.
pub(crate) fn allocate(bytes: usize, pages: Pages) -> std::io::Result<Memory> {
    let len = bytes.next_multiple_of(HUGE_BYTES);
    let mut refused = Vec::new();
    if pages == Pages::Hugetlb2M {
        match hugetlb(len) {
            Ok(map) => {
                return Ok(Memory {
                    map,
                    offset: 0,
                    len,
                    refused,
                });
            }
            Err(e) => refused.push(hugetlb_refusal(len, &e)),
        }
    }
    // Slack on both sides that keeps Linux's defaults: the part in use differs in its advice, so
    // it stays a mapping of its own in smaps, and no neighbour's pages are counted with it.
    let map = MmapOptions::new()
        .len(len + HUGE_BYTES + 2 * GUARD_BYTES)
        .map_anon()?;
    let start = map.as_ptr().expose_provenance();
    let offset = (start + GUARD_BYTES).next_multiple_of(HUGE_BYTES) - start;
    let advice = match pages {
        Pages::FourK => Advice::NoHugePage,
        Pages::Thp | Pages::Hugetlb2M => Advice::HugePage,
    };
    if let Err(e) = map.advise_range(advice, offset, len) {
        // EINVAL: Linux without transparent huge pages, so small pages are what one gets anyway.
        if pages != Pages::FourK {
            refused.push(format!(
                "Linux refused madvise(MADV_HUGEPAGE): {e}; it was built without transparent huge pages"
            ));
        }
    }
    Ok(Memory {
        map,
        offset,
        len,
        refused,
    })
}

/// Pages are taken now: a page missing at first touch would be a SIGBUS (cgroup limit).
fn hugetlb(len: usize) -> std::io::Result<MmapMut> {
    let map = MmapOptions::new().len(len).huge(Some(21)).map_anon()?;
    match map.advise(Advice::PopulateWrite) {
        Err(e) if e.raw_os_error() != Some(rustix::io::Errno::INVAL.raw_os_error()) => Err(e),
        // EINVAL: Linux before 5.14, which reserves the pages at least.
        _ => Ok(map),
    }
}

fn sysctl(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|e| format!("unreadable ({e})"), |t| t.trim().to_owned())
}

fn hugetlb_refusal(len: usize, error: &std::io::Error) -> String {
    const POOL: &str = "/proc/sys/vm/nr_hugepages";
    format!(
        "no hugetlb pages ({error}): {POOL} is {}, {} free pages of 2 MiB are needed (and allowed by \
         the hugetlb cgroup); transparent huge pages were tried instead",
        sysctl(POOL),
        len / HUGE_BYTES
    )
}

fn verify(
    region: Region,
    asked: Pages,
    bytes: u64,
    memory: &Memory,
    seen: std::io::Result<smaps::Backing>,
) -> MappedRegion {
    let mut notes = memory.refused.clone();
    let (got, got_huge_bytes) = match &seen {
        Ok(seen) => {
            let got = classify(seen, memory.len as u64);
            notes.extend(shortfall(asked, got, seen, memory.len as u64));
            (got, seen.huge_bytes())
        }
        Err(e) => {
            notes.push(format!(
                "page size not verified, /proc/self/smaps is unreadable ({e}); taken as 4k"
            ));
            (Pages::FourK, 0)
        }
    };
    MappedRegion {
        region,
        host_start: memory.host_start(),
        bytes,
        asked,
        got_huge_bytes,
        got,
        note: (!notes.is_empty()).then(|| notes.join("; ")),
    }
}

/// The page size of a mapping of `len` bytes: huge only if every byte of it is.
fn classify(seen: &smaps::Backing, len: u64) -> Pages {
    if seen.hugetlb_bytes >= len {
        Pages::Hugetlb2M
    } else if seen.huge_bytes() >= len {
        Pages::Thp
    } else {
        Pages::FourK
    }
}

/// What smaps shows that is not as asked and was not refused openly.
fn shortfall(asked: Pages, got: Pages, seen: &smaps::Backing, len: u64) -> Option<String> {
    const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    match (asked, got) {
        (Pages::FourK, Pages::FourK) if seen.huge_bytes() > 0 => Some(format!(
            "{} KiB lie in huge pages although MADV_NOHUGEPAGE was given",
            seen.huge_bytes() / 1024
        )),
        (Pages::FourK, Pages::FourK) if seen.kernel_page_bytes > 4096 => Some(format!(
            "base pages of this Linux are {} KiB",
            seen.kernel_page_bytes / 1024
        )),
        (Pages::Thp | Pages::Hugetlb2M, Pages::FourK) => Some(format!(
            "{} of {} KiB in transparent huge pages: {ENABLED} is \"{}\" ([always] or [madvise] is \
             needed, and free memory in runs of 2 MiB)",
            seen.huge_bytes() / 1024,
            len / 1024,
            sysctl(ENABLED)
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_are_read_as_they_are_written() {
        for pages in [Pages::FourK, Pages::Thp, Pages::Hugetlb2M] {
            assert_eq!(pages.to_string().parse(), Ok(pages));
        }
        let error = "2m".parse::<Pages>().unwrap_err().to_string();
        assert_eq!(
            error,
            "pages = \"2m\" is unknown; one of: 4k, thp, hugetlb-2m"
        );
    }

    /// Huge means all of it: one 2 MiB page of a 4 MiB mapping is not `thp`.
    #[test]
    fn a_mapping_is_huge_only_as_a_whole() {
        const M2: u64 = 2 << 20;
        for (anon_huge_bytes, hugetlb_bytes, len, expected) in [
            (0, 0, M2, Pages::FourK),
            (M2, 0, 2 * M2, Pages::FourK),
            (2 * M2, 0, 2 * M2, Pages::Thp),
            (0, M2, M2, Pages::Hugetlb2M),
        ] {
            let seen = smaps::Backing {
                mappings: 1,
                anon_huge_bytes,
                hugetlb_bytes,
                ..smaps::Backing::default()
            };
            let what = format!("{anon_huge_bytes} {hugetlb_bytes} of {len}");
            let got = classify(&seen, len);
            assert_eq!(got, expected, "{what}");
            let short = shortfall(Pages::Thp, got, &seen, len).is_some();
            assert_eq!(short, expected == Pages::FourK, "{what}");
        }
    }
}

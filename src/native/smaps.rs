//! What `/proc/self/smaps` says about the pages of a range.

use std::fs;

/// Sizes of the mappings that a range overlaps, in bytes, summed over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backing {
    /// Mappings overlapped; 0 means that the range is not in the listing.
    pub mappings: u32,
    /// Size of those mappings.
    pub size_bytes: u64,
    /// Resident, hugetlb pages not among them.
    pub rss_bytes: u64,
    /// In transparent huge pages.
    pub anon_huge_bytes: u64,
    /// In hugetlb pages.
    pub hugetlb_bytes: u64,
    /// Smallest page size of the mappings: 4 KiB unless hugetlb (or another base page) backs them.
    pub kernel_page_bytes: u64,
}

impl Backing {
    /// Bytes in pages larger than the base page, transparent or hugetlb.
    #[must_use]
    pub fn huge_bytes(&self) -> u64 {
        self.anon_huge_bytes + self.hugetlb_bytes
    }
}

/// The backing of host addresses `start..start + bytes` in this process, as Linux tells now.
pub fn backing(start: u64, bytes: u64) -> std::io::Result<Backing> {
    let text = fs::read_to_string("/proc/self/smaps")?;
    Ok(parse(&text, start, bytes))
}

/// [`backing`] from the text of a smaps file.
#[must_use]
pub fn parse(text: &str, start: u64, bytes: u64) -> Backing {
    let mut sum = Backing::default();
    let mut inside = false;
    for line in text.lines() {
        if let Some((low, high)) = header(line) {
            inside = low < start + bytes && start < high;
            if inside {
                sum.mappings += 1;
            }
        } else if inside && let Some((key, bytes)) = size(line) {
            match key {
                "Size" => sum.size_bytes += bytes,
                "Rss" => sum.rss_bytes += bytes,
                "AnonHugePages" => sum.anon_huge_bytes += bytes,
                "Private_Hugetlb" | "Shared_Hugetlb" => sum.hugetlb_bytes += bytes,
                "KernelPageSize" if sum.kernel_page_bytes == 0 => sum.kernel_page_bytes = bytes,
                "KernelPageSize" => sum.kernel_page_bytes = sum.kernel_page_bytes.min(bytes),
                _ => {}
            }
        }
    }
    sum
}

/// `7f00-7f08 rw-p …` opens a mapping; `Size: 8 kB` does not.
fn header(line: &str) -> Option<(u64, u64)> {
    let (low, high) = line.split_whitespace().next()?.split_once('-')?;
    Some((
        u64::from_str_radix(low, 16).ok()?,
        u64::from_str_radix(high, 16).ok()?,
    ))
}

fn size(line: &str) -> Option<(&str, u64)> {
    let (key, value) = line.split_once(':')?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((key, kib * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded on Linux 6.18: 4 MiB with MADV_HUGEPAGE between two slack mappings; the hugetlb
    /// mapping follows the fields' order of the same Linux.
    const RECORDED: &str = "\
7f1000000000-7f1000200000 rw-p 00000000 00:00 0 
Size:               2048 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:                   0 kB
AnonHugePages:         0 kB
THPeligible:           0
VmFlags: rd wr mr mw me ac 
7f1000200000-7f1000600000 rw-p 00000000 00:00 0 
Size:               4096 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:                4096 kB
Anonymous:          4096 kB
AnonHugePages:      2048 kB
Shared_Hugetlb:        0 kB
Private_Hugetlb:       0 kB
THPeligible:           1
VmFlags: rd wr mr mw me ac hg 
7f1000600000-7f1000800000 rw-p 00000000 00:0f 41                         /anon_hugepage (deleted)
Size:               2048 kB
KernelPageSize:     2048 kB
MMUPageSize:        2048 kB
Rss:                   0 kB
AnonHugePages:         0 kB
Private_Hugetlb:    2048 kB
VmFlags: rd wr mr mw me de ht 
";

    #[test]
    fn only_overlapped_mappings_count() {
        let thp = parse(RECORDED, 0x7f10_0020_0000, 4 << 20);
        let expected = Backing {
            mappings: 1,
            size_bytes: 4 << 20,
            rss_bytes: 4 << 20,
            anon_huge_bytes: 2 << 20,
            hugetlb_bytes: 0,
            kernel_page_bytes: 4096,
        };
        assert_eq!(thp, expected);
        let hugetlb = parse(RECORDED, 0x7f10_0060_0000, 1);
        assert_eq!(
            (hugetlb.huge_bytes(), hugetlb.kernel_page_bytes),
            (2 << 20, 2 << 20)
        );
        let both = parse(RECORDED, 0x7f10_005f_f000, 8192);
        assert_eq!((both.mappings, both.kernel_page_bytes), (2, 4096));
        assert_eq!(parse(RECORDED, 0x1000, 4096), Backing::default());
    }
}

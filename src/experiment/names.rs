//! The closed sets that an experiment chooses from, under the names that files, tables and CSV use.

use std::fmt;
use std::path::PathBuf;

/// Declares an enum whose variants have one spelling each, so that parser, printer and the list of
/// what is accepted are one text.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
        }
        impl $name {
            /// All of them, in the order of their declaration.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// Its name in files, tables and CSV.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }

            /// The one called `name`.
            #[must_use]
            pub fn parse(name: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|v| v.name() == name)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

names! {
    /// What an experiment runs.
    Kernel {
        /// A bare chase over the groups with a minimal visit, so that knees are sharp.
        PsiWalk = "psi-walk",
        /// One `psi_task_change` walk with full visits.
        PsiDepth = "psi-depth",
        /// A whole pipe round trip.
        PsiPipe = "psi-pipe",
        /// A pipe round trip with the inner groups on and off.
        PsiInner = "psi-inner",
    }
}

impl Kernel {
    /// Axes that the kernel knows, each with the lowest and the highest value that is accepted.
    #[must_use]
    pub fn axes(self) -> &'static [(&'static str, u64, u64)] {
        match self {
            Kernel::PsiWalk | Kernel::PsiDepth => &[("depth", 0, MAX_DEPTH)],
            Kernel::PsiPipe | Kernel::PsiInner => &[("depth", 0, MAX_DEPTH), ("cpus", 1, 2)],
        }
    }

    /// Metrics that variants are compared by, the preferred one first: per operation where the
    /// variants differ in the number of visits, else per visit.
    #[must_use]
    pub fn metrics(self) -> &'static [&'static str] {
        match self {
            Kernel::PsiWalk | Kernel::PsiDepth => &[
                "cycles_per_visit",
                "tsc_cycles_per_visit",
                "time_ns_per_visit",
            ],
            Kernel::PsiPipe | Kernel::PsiInner => &["time_ns_per_op", "ops_per_s"],
        }
    }
}

/// Deepest tree. Linux itself sets no limit by default; 1000 levels of 4096-byte cgroups are 4 MB,
/// beyond any L2, and the tree still builds at once.
pub const MAX_DEPTH: u64 = 1000;

names! {
    /// How the walk comes from one group to the next.
    Variant {
        /// `psi_group->parent`: Linux 6.1 to 6.18.
        Parent = "parent",
        /// The cgroup's parent, then its group: the proposed patch, repaired.
        Cgroup = "cgroup",
        /// The proposed patch as it was posted: the switch to the next task starts from the
        /// previous one.
        CgroupAsPosted = "cgroup-as-posted",
        /// As `cgroup`, and each group also reads the inode number: before the first patch.
        CgroupInoCheck = "cgroup-ino-check",
        /// Leaf and system only: `psi_inner_cgroup=false`.
        InnerOff = "inner-off",
        /// As `parent`, and the parent's counters are prefetched during the present visit.
        ParentPrefetch = "parent-prefetch",
        /// The groups' addresses lie in an array of the leaf: known in advance, not chased.
        AncestorsArray = "ancestors-array",
        /// As `parent`: a variant against itself, to see what differs by chance.
        ParentAgain = "parent-again",
        /// As `parent`, with a multiplication on the pointer of each 12th visit: a known small
        /// difference. On native alone: the model takes computing for free.
        ParentImul = "parent-imul",
    }
}

names! {
    /// Pages behind the memory that the kernel walks over.
    Pages {
        /// 4 KiB.
        FourKib = "4k",
        /// Transparent huge pages of 2 MiB.
        Thp = "thp",
        /// 2 MiB pages of hugetlbfs.
        Hugetlb2m = "hugetlb-2m",
    }
}

names! {
    /// Which accesses reach the model.
    Lines {
        /// All of the walk.
        Walk = "walk",
        /// Only those to `psi_group`, `psi_group_cpu` and `cgroup`.
        Psi = "psi",
    }
}

names! {
    /// What runs the kernel.
    Backend {
        /// Real memory of this host.
        Native = "native",
        /// A deterministic model of a named machine.
        Model = "model",
    }
}

/// Where objects lie.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// As Linux's slab allocator places them.
    Slab,
    /// One after the other, sizes rounded up to the line.
    Packed,
    /// Slab, each object moved by a number of lines of its own.
    Coloured,
    /// Recorded addresses, read from this file.
    Stream(PathBuf),
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Slab => f.write_str("slab"),
            Placement::Packed => f.write_str("packed"),
            Placement::Coloured => f.write_str("coloured"),
            Placement::Stream(path) => write!(f, "stream:{}", path.display()),
        }
    }
}

/// What the caches hold when an operation begins.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// What the operation before left.
    Warm,
    /// The same after other data of this size were touched.
    Polluted {
        /// Size of those data in KiB.
        kib: u64,
    },
    /// Nothing: every line of the arena was flushed.
    Flushed,
    /// What the operation before left, after the accesses of this recording outside PSI.
    Stream(PathBuf),
}

/// Most data that a start may touch, in KiB: the arena's region for them holds 1 GiB.
pub const MAX_POLLUTION_KIB: u64 = 256 << 10;

impl Start {
    /// `warm`, `polluted:KiB`, `flushed` or `stream:FILE`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Start> {
        match text {
            "warm" => Some(Start::Warm),
            "flushed" => Some(Start::Flushed),
            _ if text.starts_with("stream:") => {
                let path = &text["stream:".len()..];
                (!path.is_empty()).then(|| Start::Stream(path.into()))
            }
            _ => {
                let kib = text.strip_prefix("polluted:")?.parse().ok()?;
                (1..=MAX_POLLUTION_KIB)
                    .contains(&kib)
                    .then_some(Start::Polluted { kib })
            }
        }
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Start::Warm => f.write_str("warm"),
            Start::Polluted { kib } => write!(f, "polluted:{kib}"),
            Start::Flushed => f.write_str("flushed"),
            // By its name alone, as the results folder keeps it: the same row on every machine.
            Start::Stream(path) => {
                let name = path.file_name().unwrap_or_default();
                write!(f, "stream:{}", name.to_string_lossy())
            }
        }
    }
}

/// `names` joined by commas, for the end of a sentence.
pub(crate) fn list<T: fmt::Display>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|n| n.to_string()).collect();
    names.join(", ")
}

/// `; did you mean NAME?` if one of `known` is at most two edits away, else nothing.
pub(crate) fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    known
        .into_iter()
        .map(|k| (strsim::levenshtein(name, k), k))
        .min()
        .filter(|(edits, k)| (1..=2).contains(edits) && k.len() > 2)
        .map(|(_, k)| format!("; did you mean {k}?"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_to_what_it_names() {
        for v in Variant::ALL {
            assert_eq!(Variant::parse(v.name()), Some(*v));
        }
        for text in [
            "warm",
            "flushed",
            "polluted:1",
            "polluted:262144",
            "stream:b.txt.gz",
        ] {
            assert_eq!(Start::parse(text).map(|s| s.to_string()), Some(text.into()));
        }
        for text in [
            "",
            "cold",
            "polluted",
            "polluted:0",
            "polluted:262145",
            "polluted:-1",
            "stream:",
            "stream",
        ] {
            assert_eq!(Start::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_hint_is_given_for_slips_only() {
        let known = ["parent", "cgroup"];
        assert_eq!(hint("parnt", known), "; did you mean parent?");
        assert_eq!(hint("cgruop", known), "; did you mean cgroup?");
        assert_eq!(hint("ancestors", known), "");
    }
}

//! The caches of a host from what its sources tell: sysfs first, then CPUID, then hwloc, each for
//! what the ones before do not tell; the family's data for what no source can tell.

use super::family::{self, Family, LevelDefaults};
use super::sysfs::Tree;
use super::told::{Told, ToldCache};
use super::{Cache, Confidence, Replacement};

/// What joins the sources to the caches of a machine.
pub(super) struct Geometry<'a> {
    /// Who is a sibling of whom.
    pub tree: &'a Tree,
    /// What geometry does not say.
    pub family: &'a Family,
    /// Ends what a guest was told.
    pub as_told: &'a str,
    /// In order of precedence.
    pub sources: &'a [(&'a str, &'a [ToldCache])],
}

impl Geometry<'_> {
    /// One cache per level that some source tells; a level that cannot be completed is a note.
    pub fn caches(&self, notes: &mut Vec<String>) -> Vec<Cache> {
        let mut caches: Vec<Cache> = Vec::new();
        for level in 1..=4 {
            if !self
                .sources
                .iter()
                .any(|(_, list)| list.iter().any(|c| c.level == level))
            {
                continue;
            }
            match self.cache(level, caches.first().map(|c| c.line_bytes), notes) {
                Ok(cache) => caches.push(cache),
                Err(why) => notes.push(format!("L{level} is left out: {why}.")),
            }
        }
        caches
    }

    /// The first value above zero by any source, and who tells it.
    fn first(&self, level: u8, of: impl Fn(&ToldCache) -> &Told<u64>) -> Option<(u64, &str)> {
        self.sources.iter().find_map(|&(name, list)| {
            let cache = list.iter().find(|c| c.level == level)?;
            let &value = of(cache).value()?;
            (value > 0).then_some((value, name))
        })
    }

    /// Size, sets, ways and line of `level`: three of them give the fourth.
    fn cache(
        &self,
        level: u8,
        inner_line: Option<u32>,
        notes: &mut Vec<String>,
    ) -> Result<Cache, String> {
        let size = self.first(level, |c| &c.size_bytes);
        let line = match (self.first(level, |c| &c.line_bytes), inner_line) {
            (Some((line, _)), _) => line,
            (None, Some(line)) => u64::from(line),
            (None, None) => return Err("no source tells its line".to_owned()),
        };
        let mut sets = self.first(level, |c| &c.sets);
        let mut ways = self.first(level, |c| &c.ways);
        let (defaults, foreign) = self.defaults(level);
        let mut guessed = None;
        let zero_ways = self.sources.iter().find_map(|&(name, list)| {
            let cache = list.iter().find(|c| c.level == level)?;
            (cache.ways == Told::Is(0)).then_some(name)
        });
        if let (None, Some(name), None | Some((1, _)), Some((size, _))) =
            (ways, zero_ways, sets, size)
        {
            // sysfs has 0 ways for fully associative (Linux, ABI/testing/sysfs-devices-system-cpu).
            sets = Some((1, name));
            ways = Some((size / line, name));
        }
        if ways.is_none() && (sets.is_none() || size.is_none()) {
            let default = defaults
                .ways
                .ok_or("no source tells its ways, nor does the family")?;
            guessed = Some(format!("; {default} ways: of family {}", self.family.name));
            ways = Some((u64::from(default), "family"));
        }
        let divide = |size: u64, by: u64, what: &str| match size.checked_rem(by) {
            Some(0) => Ok(size / by),
            _ => Err(format!(
                "its size of {size} bytes is no whole number of {what}"
            )),
        };
        let (sets, ways, from) = match (sets, ways, size) {
            (Some((sets, from)), Some((ways, _)), _) => (sets, ways, from),
            (Some((sets, from)), None, Some((size, _))) => {
                (sets, divide(size, sets.saturating_mul(line), "ways")?, from)
            }
            (None, Some((ways, _)), Some((size, from))) => {
                (divide(size, ways.saturating_mul(line), "sets")?, ways, from)
            }
            _ => return Err("no source tells its sets, nor its size".to_owned()),
        };
        let told = sets.checked_mul(ways).and_then(|n| n.checked_mul(line));
        if let (Some(told), Some((size, name))) = (told, size)
            && told != size
        {
            notes.push(format!(
                "L{level}: {sets} sets of {ways} ways of {line} bytes are {told} bytes, but \
                 {name} tells {size}{}; sets and ways are used.",
                self.as_told
            ));
        }
        let narrow = |n: u64, what: &str| {
            u32::try_from(n).map_err(|_| format!("{n} {what} are not believed"))
        };
        let (sets, ways, line) = (
            narrow(sets, "sets")?,
            narrow(ways, "ways")?,
            narrow(line, "bytes of line")?,
        );
        if line != inner_line.unwrap_or(line) {
            return Err(format!(
                "its line of {line} bytes differs from that of L1, and one line size is modelled"
            ));
        }
        let mut source = format!("geometry told by {from}{}", self.as_told);
        source.extend(guessed);
        if sets > 1 && !sets.is_power_of_two() {
            source +=
                &format!("; {sets} sets are taken as given, by modulo: no slice hash is known");
        }
        source += &format!("; {foreign}: {}", defaults.source);
        let replacement = match defaults.replacement.refuses(ways) {
            None => defaults.replacement,
            Some(_) => {
                source += &format!(
                    "; {} is not possible with {ways} ways: lru is inferred",
                    defaults.replacement
                );
                Replacement::Lru
            }
        };
        let cache = Cache {
            level,
            sets,
            ways,
            line_bytes: line,
            slices: 1,
            slice_hash: Vec::new(),
            replacement,
            inclusion: defaults.inclusion,
            latency_cycles: defaults.latency_cycles,
            outstanding_misses: defaults.outstanding_misses,
            shared_by_cores: self.shared_by_cores(level),
            confidence: lowest(Confidence::Told, defaults.confidence),
            source,
        };
        cache.check("it").map_err(|fault| fault.to_string())?;
        Ok(cache)
    }

    fn defaults(&self, level: u8) -> (LevelDefaults, String) {
        let of = |family: &Family| family.caches.iter().find(|c| c.level == level).cloned();
        match of(self.family) {
            Some(defaults) => (
                defaults,
                format!(
                    "latency, policy and misses in flight of family {}",
                    self.family.name
                ),
            ),
            None => (
                of(&family::fallback()).expect("the fallback has every level"),
                format!("family {} has no L{level}", self.family.name),
            ),
        }
    }

    fn shared_by_cores(&self, level: u8) -> u32 {
        let shared = self
            .sources
            .iter()
            .find_map(|(_, list)| list.iter().find(|c| c.level == level))
            .map_or(&[][..], |c| &c.shared_cpus);
        self.tree.cores(shared).max(1)
    }
}

/// The less sure of two.
fn lowest(one: Confidence, other: Confidence) -> Confidence {
    let rank = |c: Confidence| match c {
        Confidence::Verified => 0,
        Confidence::Measured => 1,
        Confidence::Told => 2,
        Confidence::Memory => 3,
        Confidence::Inferred => 4,
    };
    if rank(one) >= rank(other) { one } else { other }
}

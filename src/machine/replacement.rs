//! Replacement policies by name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Replacement policy. Invalid ways fill first under each. What each does is told in
/// `model::replacement`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Replacement {
    /// Least recently used.
    Lru,
    /// Binary tree of pseudo-LRU bits, cut off at the right where `ways` is no power of two.
    TreePlru,
    /// Ways as trees of four with a tree-PLRU each, the trees ordered by LRU: 12 ways are three.
    /// Ice Lake's L1D ("LRU3PLRU4", uops.info). `ways` must be a multiple of four.
    TreesOfFourLru,
    /// One bit per way, set on use; when all are set, the others are cleared.
    BitPlru,
    /// One bit per way, cleared on use; when a victim is sought and none is set, all are set.
    Nru,
    /// First in, first out.
    Fifo,
    /// Seeded random.
    Random,
    /// Static re-reference interval prediction with two bits (Jaleel et al., ISCA 2010).
    Srrip,
    /// As SRRIP, but all but one in 32 fills, drawn by seed, are predicted to be the next to go.
    Brrip,
    /// SRRIP and BRRIP, whichever misses less in sets that duel.
    Drrip,
    /// Two-bit ages under the rules of a nanoBench name.
    Qlru(Qlru),
}

/// Rules of a quad-age LRU, as `QLRU_Hxy_Mz_Ru_Uv` names them (Abel, nanoBench; uops.info): ages
/// 0 (young) to 3 (goes next).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Qlru {
    /// `Hxy`: age after a hit at age 3 and at age 2; of younger ones it is 0.
    pub hit: [u8; 2],
    /// `Mz`: age of a line that comes.
    pub miss: u8,
    /// `Ru`, 0 to 2: the leftmost vacant way (2: the rightmost), else the leftmost of age 3 (1: if
    /// there is none, the leftmost way).
    pub replace: u8,
    /// `Uv`, 0 to 3: how ages rise when none is 3. 0: all, until the oldest is 3; 1: all but the
    /// line in use, until the oldest of them is 3; 2: all by one; 3: all but the line in use by one.
    pub update: u8,
    /// `_UMO`: ages rise before a victim is sought, not after each use.
    pub on_miss_only: bool,
}

/// Names other than those of QLRU.
const NAMES: [(&str, Replacement); 10] = [
    ("lru", Replacement::Lru),
    ("tree-plru", Replacement::TreePlru),
    ("trees-of-four-lru", Replacement::TreesOfFourLru),
    ("bit-plru", Replacement::BitPlru),
    ("nru", Replacement::Nru),
    ("fifo", Replacement::Fifo),
    ("random", Replacement::Random),
    ("srrip", Replacement::Srrip),
    ("brrip", Replacement::Brrip),
    ("drrip", Replacement::Drrip),
];

impl Replacement {
    /// Why a set of `ways` cannot have this policy; `None`: it can.
    #[must_use]
    pub fn refuses(self, ways: u32) -> Option<&'static str> {
        match self {
            Replacement::TreesOfFourLru if !ways.is_multiple_of(4) => {
                Some("trees-of-four-lru needs a multiple of four ways; lru takes any number")
            }
            _ => None,
        }
    }
}

impl fmt::Display for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Replacement::Qlru(qlru) = self {
            return qlru.fmt(f);
        }
        let name = NAMES.iter().find(|(_, policy)| policy == self);
        f.write_str(name.expect("every other policy has a name").0)
    }
}

impl fmt::Display for Qlru {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Qlru {
            hit: [of_3, of_2],
            miss,
            replace,
            update,
            on_miss_only,
        } = self;
        write!(f, "QLRU_H{of_3}{of_2}_M{miss}_R{replace}_U{update}")?;
        f.write_str(if *on_miss_only { "_UMO" } else { "" })
    }
}

impl From<Replacement> for String {
    fn from(policy: Replacement) -> String {
        policy.to_string()
    }
}

impl TryFrom<String> for Replacement {
    type Error = String;

    fn try_from(name: String) -> Result<Replacement, String> {
        name.parse()
    }
}

impl FromStr for Replacement {
    type Err = String;

    fn from_str(name: &str) -> Result<Replacement, String> {
        if let Some((_, policy)) = NAMES.iter().find(|(known, _)| *known == name) {
            return Ok(*policy);
        }
        qlru(name).map(Replacement::Qlru).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            format!(
                "replacement {name:?} is unknown; accepted are {}, and QLRU_Hxy_Mz_Ru_Uv with xy of \
                 21, 20, 11, 10 or 00, z 0 to 3, u 0 to 2, v 0 to 3 (2 and 3 with u = 1 only), with \
                 or without _UMO",
                names.join(", ")
            )
        })
    }
}

/// The digits behind `letter`, each at most the one beside it in `most`.
fn digits<const N: usize>(part: Option<&str>, letter: char, most: [u8; N]) -> Option<[u8; N]> {
    let digits = part?.strip_prefix(letter)?.as_bytes();
    let digits: [u8; N] = digits.try_into().ok()?;
    let values = digits.map(|digit| digit.wrapping_sub(b'0'));
    values
        .iter()
        .zip(most)
        .all(|(value, most)| *value <= most)
        .then_some(values)
}

fn qlru(name: &str) -> Option<Qlru> {
    let mut parts = name.split('_');
    if parts.next() != Some("QLRU") {
        return None;
    }
    let hit = digits(parts.next(), 'H', [2, 1])?;
    let [miss] = digits(parts.next(), 'M', [3])?;
    let [replace] = digits(parts.next(), 'R', [2])?;
    let [update] = digits(parts.next(), 'U', [3])?;
    let on_miss_only = match (parts.next(), parts.next()) {
        (None, _) => false,
        (Some("UMO"), None) => true,
        _ => return None,
    };
    // H01 is none of nanoBench's; and where no age need be 3, only R1 knows what to do.
    let sound = hit != [0, 1] && (update < 2 || replace == 1);
    sound.then_some(Qlru {
        hit,
        miss,
        replace,
        update,
        on_miss_only,
    })
}

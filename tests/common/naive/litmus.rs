//! Litmus tables of the coherence protocols: what three cores do to one line, as data.

use kwalk::machine::Protocol;

use super::coherence::State::{self, Exclusive, Forward, Invalid, Modified, Owned, Shared};
use super::coherence::Supplier::{self, Below, Core, Own};
use super::hierarchy::Op::{self, Load, Store};

/// One step of a litmus table: core, operation; then where the line came from, and the states of
/// all three cores, core 0 first, as letters.
pub type Litmus = (usize, Op, Supplier, &'static str);

/// A state by its letter, as in MOESIF.
pub fn state(letter: char) -> State {
    match letter {
        'M' => Modified,
        'O' => Owned,
        'E' => Exclusive,
        'S' => Shared,
        'F' => Forward,
        'I' => Invalid,
        _ => panic!("{letter} is no state"),
    }
}

/// The litmus tables, one line of memory each, from three cores that hold nothing.
///
/// Worked out by hand from the protocols' rules, not with [`Coherence`](super::coherence::Coherence).
pub const LITMUS: [(&str, Protocol, &[Litmus]); 15] = [
    (
        "readers, then one of them writes",
        Protocol::Mesi,
        &[
            (0, Load, Below, "EII"),
            (0, Load, Own, "EII"),
            (1, Load, Core(0), "SSI"),
            (2, Load, Below, "SSS"),
            (1, Load, Own, "SSS"),
            (1, Store, Own, "IMI"),
        ],
    ),
    (
        "readers, then one of them writes",
        Protocol::Moesi,
        &[
            (0, Load, Below, "EII"),
            (0, Load, Own, "EII"),
            (1, Load, Core(0), "SSI"),
            (2, Load, Below, "SSS"),
            (1, Load, Own, "SSS"),
            (1, Store, Own, "IMI"),
        ],
    ),
    (
        "readers, then one of them writes",
        Protocol::Mesif,
        &[
            (0, Load, Below, "EII"),
            (0, Load, Own, "EII"),
            (1, Load, Core(0), "SFI"),
            (2, Load, Core(1), "SSF"),
            (1, Load, Own, "SSF"),
            (1, Store, Own, "IMI"),
        ],
    ),
    (
        "one writes, others read, the writer writes again",
        Protocol::Mesi,
        &[
            (0, Store, Below, "MII"),
            (1, Load, Core(0), "SSI"),
            (2, Load, Below, "SSS"),
            (0, Store, Own, "MII"),
            (0, Load, Own, "MII"),
        ],
    ),
    (
        "one writes, others read, the writer writes again",
        Protocol::Moesi,
        &[
            (0, Store, Below, "MII"),
            (1, Load, Core(0), "OSI"),
            (2, Load, Core(0), "OSS"),
            (0, Store, Own, "MII"),
            (0, Load, Own, "MII"),
        ],
    ),
    (
        "one writes, others read, the writer writes again",
        Protocol::Mesif,
        &[
            (0, Store, Below, "MII"),
            (1, Load, Core(0), "SFI"),
            (2, Load, Core(1), "SSF"),
            (0, Store, Own, "MII"),
            (0, Load, Own, "MII"),
        ],
    ),
    (
        "ping-pong of two writers",
        Protocol::Mesi,
        &[
            (0, Store, Below, "MII"),
            (1, Store, Core(0), "IMI"),
            (0, Store, Core(1), "MII"),
            (0, Store, Own, "MII"),
        ],
    ),
    (
        "ping-pong of two writers",
        Protocol::Moesi,
        &[
            (0, Store, Below, "MII"),
            (1, Store, Core(0), "IMI"),
            (0, Store, Core(1), "MII"),
            (0, Store, Own, "MII"),
        ],
    ),
    (
        "ping-pong of two writers",
        Protocol::Mesif,
        &[
            (0, Store, Below, "MII"),
            (1, Store, Core(0), "IMI"),
            (0, Store, Core(1), "MII"),
            (0, Store, Own, "MII"),
        ],
    ),
    (
        "migratory: each reads, then writes",
        Protocol::Mesi,
        &[
            (0, Load, Below, "EII"),
            (0, Store, Own, "MII"),
            (1, Load, Core(0), "SSI"),
            (1, Store, Own, "IMI"),
            (2, Load, Core(1), "ISS"),
            (2, Store, Own, "IIM"),
        ],
    ),
    (
        "migratory: each reads, then writes",
        Protocol::Moesi,
        &[
            (0, Load, Below, "EII"),
            (0, Store, Own, "MII"),
            (1, Load, Core(0), "OSI"),
            (1, Store, Own, "IMI"),
            (2, Load, Core(1), "IOS"),
            (2, Store, Own, "IIM"),
        ],
    ),
    (
        "migratory: each reads, then writes",
        Protocol::Mesif,
        &[
            (0, Load, Below, "EII"),
            (0, Store, Own, "MII"),
            (1, Load, Core(0), "SFI"),
            (1, Store, Own, "IMI"),
            (2, Load, Core(1), "ISF"),
            (2, Store, Own, "IIM"),
        ],
    ),
    (
        "a third core writes what two share",
        Protocol::Mesi,
        &[
            (0, Load, Below, "EII"),
            (1, Load, Core(0), "SSI"),
            (2, Store, Below, "IIM"),
            (0, Load, Core(2), "SIS"),
        ],
    ),
    (
        "a third core writes what an owner and a reader have",
        Protocol::Moesi,
        &[
            (0, Store, Below, "MII"),
            (1, Load, Core(0), "OSI"),
            (2, Store, Core(0), "IIM"),
            (0, Load, Core(2), "SIO"),
            (0, Store, Own, "MII"),
        ],
    ),
    (
        "a third core writes what two share",
        Protocol::Mesif,
        &[
            (0, Load, Below, "EII"),
            (1, Load, Core(0), "SFI"),
            (2, Store, Core(1), "IIM"),
            (0, Load, Core(2), "FIS"),
        ],
    ),
];

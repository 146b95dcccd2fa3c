//! The machines of the catalogue against what is published of them: sizes, policies, transfers; and
//! that every number says where it is from.

use kwalk::machine::{Confidence, Machine, PrefetcherKind, Protocol, Replacement, Tlb, catalogue};

use super::{KIB, MIB};

/// A machine and, per level, its level, size in bytes and ways.
type Published = (&'static str, &'static [(u8, u64, u32)]);

/// Sizes and ways as the vendors publish them, beside the sets that the files state: the product
/// of sets, ways, slices and line must be the size.
#[test]
fn catalogue_has_the_published_sizes() {
    let published: &[Published] = &[
        // Gracemont's L2 is one for four cores; the L3 is that of the whole chip.
        (
            "alder-lake-e",
            &[(1, 32 * KIB, 8), (2, 2 * MIB, 16), (3, 30 * MIB, 12)],
        ),
        (
            "alder-lake-p",
            &[(1, 48 * KIB, 12), (2, 1280 * KIB, 10), (3, 30 * MIB, 12)],
        ),
        (
            "apple-m1",
            &[(1, 128 * KIB, 8), (2, 12 * MIB, 12), (3, 8 * MIB, 16)],
        ),
        // 26 slices of 1.375 MiB: 35.75 MiB.
        (
            "cascade-lake",
            &[(1, 32 * KIB, 8), (2, MIB, 16), (3, 36608 * KIB, 11)],
        ),
        (
            "emerald-rapids",
            &[(1, 48 * KIB, 12), (2, 2 * MIB, 16), (3, 320 * MIB, 20)],
        ),
        // 384 MiB for 12 complexes; a core sees that of its own.
        ("genoa", &[(1, 32 * KIB, 8), (2, MIB, 8), (3, 32 * MIB, 16)]),
        (
            "i7-9700",
            &[(1, 32 * KIB, 8), (2, 256 * KIB, 4), (3, 12 * MIB, 12)],
        ),
        (
            "icelake-client",
            &[(1, 48 * KIB, 12), (2, 512 * KIB, 8), (3, 6 * MIB, 12)],
        ),
        (
            "icelake-sp",
            &[(1, 48 * KIB, 12), (2, 1280 * KIB, 20), (3, 54 * MIB, 12)],
        ),
        (
            "ivy-bridge",
            &[(1, 32 * KIB, 8), (2, 256 * KIB, 8), (3, 6 * MIB, 12)],
        ),
        (
            "milan",
            &[(1, 32 * KIB, 8), (2, 512 * KIB, 8), (3, 32 * MIB, 16)],
        ),
        (
            "neoverse-n1",
            &[(1, 64 * KIB, 4), (2, MIB, 8), (3, 32 * MIB, 16)],
        ),
        (
            "neoverse-n2",
            &[(1, 64 * KIB, 4), (2, MIB, 8), (3, 64 * MIB, 16)],
        ),
        (
            "neoverse-v1",
            &[(1, 64 * KIB, 4), (2, MIB, 8), (3, 32 * MIB, 16)],
        ),
        (
            "neoverse-v2",
            &[(1, 64 * KIB, 4), (2, 2 * MIB, 8), (3, 36 * MIB, 16)],
        ),
        // Zen 2: 16 MiB for a complex of four cores.
        (
            "rome",
            &[(1, 32 * KIB, 8), (2, 512 * KIB, 8), (3, 16 * MIB, 16)],
        ),
        (
            "ryzen-5900hx",
            &[(1, 32 * KIB, 8), (2, 512 * KIB, 8), (3, 16 * MIB, 16)],
        ),
        (
            "sapphire-rapids",
            &[(1, 48 * KIB, 12), (2, 2 * MIB, 16), (3, 105 * MIB, 15)],
        ),
        ("textbook-32k-lru", &[(1, 32 * KIB, 8), (2, 256 * KIB, 8)]),
        ("textbook-48k-lru", &[(1, 48 * KIB, 12), (2, 256 * KIB, 8)]),
        // 512 MiB for 16 complexes.
        (
            "turin",
            &[(1, 48 * KIB, 12), (2, MIB, 16), (3, 32 * MIB, 16)],
        ),
    ];
    let names: Vec<&str> = catalogue::names().collect();
    let listed: Vec<&str> = published.iter().map(|p| p.0).collect();
    assert_eq!(names, listed, "every machine has its published sizes here");
    for &(name, levels) in published {
        let machine = catalogue::find(name).unwrap();
        assert_eq!(machine.name, name);
        let caches: Vec<(u8, u64, u32)> = machine
            .caches
            .iter()
            .map(|c| (c.level, c.size_bytes(), c.ways))
            .collect();
        assert_eq!(caches, levels, "{name}");
    }
}

/// Intel client and server, AMD Zen 2 to 5, Neoverse N1, N2, V1 and V2 and Apple's M1 are there, and
/// each name once, in order, on a machine whose title says what it is.
#[test]
fn the_catalogue_covers_the_vendors() {
    let names: Vec<&str> = catalogue::names().collect();
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
    let titles: Vec<String> = catalogue::names()
        .filter(|name| !name.starts_with("textbook"))
        .map(|name| catalogue::find(name).unwrap().title)
        .collect();
    assert!(titles.len() >= 16, "{}", titles.len());
    for words in [
        "Intel Core",
        "Intel Xeon",
        "Zen 2",
        "Zen 3",
        "Zen 4",
        "Zen 5",
        "Neoverse N1",
        "Neoverse N2",
        "Neoverse V1",
        "Neoverse V2",
        "Apple M1",
    ] {
        assert!(titles.iter().any(|t| t.contains(words)), "no {words}");
    }
}

/// `(table, source, confidence)` of each table.
pub fn sources(m: &Machine) -> Vec<(String, &str, Confidence)> {
    let mut all = vec![
        ("core".to_owned(), &*m.core.source, m.core.confidence),
        ("memory".to_owned(), &*m.memory.source, m.memory.confidence),
    ];
    for (i, c) in m.caches.iter().enumerate() {
        all.push((format!("caches[{i}]"), &c.source, c.confidence));
    }
    for (i, t) in m.tlbs.iter().enumerate() {
        all.push((format!("tlbs[{i}]"), &t.source, t.confidence));
    }
    for (i, p) in m.prefetchers.iter().enumerate() {
        all.push((format!("prefetchers[{i}]"), &p.source, p.confidence));
    }
    if let Some(i) = &m.interconnect {
        all.push(("interconnect".to_owned(), &i.source, i.confidence));
    }
    all
}

/// What is wrong with a source and its confidence: the source says of its numbers whether they are
/// verified, measured, from memory or inferred, a table is as sure as the least sure of them, and
/// what is verified says where. Textbook machines are what they are by definition.
pub fn fault_of(source: &str, confidence: Confidence) -> Option<&'static str> {
    let least = [
        ("inferred", Confidence::Inferred),
        ("memory", Confidence::Memory),
        ("measured", Confidence::Measured),
        ("verified", Confidence::Verified),
    ]
    .into_iter()
    .find(|(word, _)| source.contains(word));
    let names_a_place = || {
        source.split("verified").skip(1).all(|rest| {
            let place = rest.trim_start_matches([',', ' ', ':']);
            rest.starts_with([',', ' ']) && place.starts_with(char::is_alphanumeric)
        })
    };
    match least {
        _ if source.starts_with("by definition: ") => None,
        None => Some("it does not say how its numbers are known"),
        Some((_, told)) if told != confidence => Some("its confidence is not that of its source"),
        Some(_) if !names_a_place() => Some("a verified number does not say where"),
        Some(_) => None,
    }
}

#[test]
fn every_number_of_the_catalogue_has_a_source() {
    for (source, confidence, sound) in [
        ("4 cycles: verified, wikichip", Confidence::Verified, true),
        ("4 cycles: verified", Confidence::Verified, false),
        ("4 cycles: verified; more", Confidence::Verified, false),
        ("4 cycles: memory", Confidence::Verified, false),
        (
            "4 cycles: verified, wikichip; 8 ways: memory",
            Confidence::Verified,
            false,
        ),
        ("4 cycles, 8 ways", Confidence::Memory, false),
        ("", Confidence::Inferred, false),
    ] {
        assert_eq!(fault_of(source, confidence).is_none(), sound, "{source}");
    }
    for name in catalogue::names() {
        let machine = catalogue::find(name).unwrap();
        for (table, source, confidence) in sources(&machine) {
            let fault = fault_of(source, confidence);
            assert_eq!(fault, None, "{name} {table}: {source}");
        }
    }
    let textbook = |name: &str| name.starts_with("textbook");
    for name in catalogue::names().filter(|name| !textbook(name)) {
        let machine = catalogue::find(name).unwrap();
        for (table, source, _) in sources(&machine) {
            assert!(!source.starts_with("by definition"), "{name} {table}");
        }
    }
}

/// What sits between cores is told of every product: Intel's protocol is MESIF, AMD's MOESI, Arm's
/// and Apple's MESI. A core has prefetchers, all on as shipped, walk caches, and farther is dearer.
#[test]
fn every_product_has_prefetchers_walk_caches_and_an_interconnect() {
    for name in catalogue::names().filter(|name| !name.starts_with("textbook")) {
        let m = catalogue::find(name).unwrap();
        let link = m.interconnect.expect(name);
        let protocol = match &m.title {
            title if title.starts_with("Intel") => Protocol::Mesif,
            title if title.starts_with("AMD") => Protocol::Moesi,
            _ => Protocol::Mesi,
        };
        assert_eq!(link.protocol, protocol, "{name}");
        let near = link.same_l3_cycles;
        let far = link.other_l3_cycles.unwrap_or(near);
        let farther = link.other_socket_cycles.unwrap_or(far);
        let last = m.caches.last().unwrap();
        assert!(
            last.latency_cycles < near && near <= far && far <= farther,
            "{name}: {near}, {far}, {farther}"
        );
        assert_eq!(
            link.other_socket_cycles.is_some(),
            link.cores_per_socket < link.cores,
            "{name}"
        );
        assert!(!m.memory.walk_cache_entries.is_empty(), "{name}");
        assert!(!m.prefetchers.is_empty(), "{name}");
        assert!(m.prefetchers.iter().all(|p| p.on), "{name}");
        let pairs = m
            .prefetchers
            .iter()
            .any(|p| p.kind == PrefetcherKind::AdjacentLine);
        // Intel's large cores document it; Apple's stands in for lines of 128 bytes.
        let documented = m.title.starts_with("Intel") && name != "alder-lake-e";
        assert_eq!(pairs, documented || name == "apple-m1", "{name}");
    }
}

/// nviennot's one-way times, in ns at the clock of the machine: within a last level, under another
/// one, in another socket. They turn into cycles that are whole, so half a cycle is allowed.
#[test]
fn transfers_are_the_published_times() {
    let published: [(&str, f64, f64, f64); 7] = [
        ("i7-9700", 21.0, 0.0, 0.0),
        ("ryzen-5900hx", 18.0, 0.0, 0.0),
        ("icelake-sp", 51.0, 0.0, 108.0),
        ("cascade-lake", 47.0, 0.0, 134.0),
        ("milan", 23.0, 107.0, 197.0),
        ("neoverse-n1", 47.0, 0.0, 0.0),
        ("neoverse-v1", 46.0, 0.0, 0.0),
    ];
    for (name, near, far, farther) in published {
        let m = catalogue::find(name).unwrap();
        let link = m.interconnect.unwrap();
        let cycles = |ns: f64| ns * m.core.clock_hz as f64 / 1e9;
        for (is, published) in [
            (link.same_l3_cycles, near),
            (link.other_l3_cycles.unwrap_or(0.0), far),
            (link.other_socket_cycles.unwrap_or(0.0), farther),
        ] {
            let published = cycles(published);
            assert!((is - published).abs() <= 0.5, "{name}: {is}, {published}");
        }
    }
}

/// Apple's pages are of 16 KiB; experiments use 4 KiB and 2 MiB, so every machine translates these.
#[test]
fn every_machine_translates_the_pages_of_the_experiments() {
    for name in catalogue::names() {
        let m = catalogue::find(name).unwrap();
        let first = |bytes| {
            let takes = |t: &&Tlb| t.level == 1 && t.page_bytes.contains(&bytes);
            m.tlbs.iter().filter(takes).count()
        };
        assert_eq!((first(4 * KIB), first(2 * MIB)), (1, 1), "{name}");
    }
    let m1 = catalogue::find("apple-m1").unwrap();
    assert!(m1.tlbs.iter().all(|t| t.page_bytes.contains(&(16 * KIB))));
}

/// The policies that the facts name: tree-PLRU on Coffee Lake, three trees of four on Sunny Cove
/// and, inferred, on Golden Cove; true LRU where theory is to hold.
#[test]
fn catalogue_has_the_named_policies() {
    for (name, policy) in [
        ("i7-9700", Replacement::TreePlru),
        ("icelake-sp", Replacement::TreesOfFourLru),
        ("sapphire-rapids", Replacement::TreesOfFourLru),
        ("textbook-32k-lru", Replacement::Lru),
        ("textbook-48k-lru", Replacement::Lru),
    ] {
        let l1 = &catalogue::find(name).unwrap().caches[0];
        assert_eq!(l1.replacement, policy, "{name}");
    }
    let golden_cove = &catalogue::find("sapphire-rapids").unwrap().caches[0];
    assert_eq!(golden_cove.confidence, Confidence::Inferred);
}

/// As nanoBench's simulator labels Coffee Lake's L2 and L3 and Ivy Bridge's L3, and as uops.info has
/// Ice Lake client's L2 and the fixed sets of its L3. Its server sibling has them by inference.
#[test]
fn catalogue_has_the_published_qlru() {
    for (name, level, policy) in [
        ("i7-9700", 2, "QLRU_H00_M1_R2_U1"),
        ("i7-9700", 3, "QLRU_H11_M1_R0_U0"),
        ("icelake-client", 2, "QLRU_H00_M1_R0_U1"),
        ("icelake-client", 3, "QLRU_H00_M1_R0_U1"),
        ("icelake-sp", 2, "QLRU_H00_M1_R0_U1"),
        ("ivy-bridge", 3, "QLRU_H11_M1_R1_U2"),
    ] {
        let cache = &catalogue::find(name).unwrap().caches[level - 1];
        assert_eq!(cache.replacement.to_string(), policy, "{name} L{level}");
        assert!(cache.source.contains(policy), "{}", cache.source);
        assert!(!cache.source.contains("stands in"), "{}", cache.source);
    }
}

/// Eight slices are numbered by three bits, so the hash has three masks.
#[test]
fn coffee_lake_l3_is_hashed_over_eight_slices() {
    let l3 = &catalogue::find("i7-9700").unwrap().caches[2];
    assert_eq!((l3.slices, l3.slice_hash.len()), (8, 3));
}

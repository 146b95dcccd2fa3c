//! Layouts: built-in data, hostile files, slab geometry, listing.

use kernels::layout::{Arch, StructLayout};
use kwalk::layouts::{LayoutError, built_in, file, find, listing, names, read_file, resolve, slab};
use proptest::prelude::*;

const NEEDED: [&str; 7] = [
    "psi_group",
    "psi_group_cpu",
    "cgroup",
    "cgroup_subsys_state",
    "css_set",
    "kernfs_node",
    "task_struct",
];

/// What the walk needs, except `rq.curr`, which the sources of some builds do not give, and `seq`,
/// which is there or not.
const FIELDS: [(&str, &str); 20] = [
    ("psi_group", "parent"),
    ("psi_group", "enabled"),
    ("psi_group", "pcpu"),
    ("psi_group", "avgs_work"),
    ("psi_group", "rtpoll_states"),
    ("psi_group_cpu", "tasks"),
    ("psi_group_cpu", "state_mask"),
    ("psi_group_cpu", "times"),
    ("psi_group_cpu", "state_start"),
    ("cgroup", "self.parent"),
    ("cgroup", "kn"),
    ("cgroup", "psi"),
    ("css_set", "dfl_cgrp"),
    ("kernfs_node", "id"),
    ("task_struct", "pid"),
    ("task_struct", "psi_flags"),
    ("task_struct", "cgroups"),
    ("task_struct", "in_iowait"),
    ("task_struct", "in_memstall"),
    ("task_struct", "thread_info.cpu"),
];

#[test]
fn every_built_in_layout_has_what_the_walk_needs() {
    assert_eq!(names().len(), 15);
    for layout in built_in() {
        for name in NEEDED {
            layout.of(name).unwrap();
        }
        for (name, field) in FIELDS {
            layout.field(name, field).unwrap();
        }
        let (version, arch) = (&layout.version, layout.arch);
        assert!(
            layout.name.starts_with(&format!("{version}-")),
            "{}",
            layout.name
        );
        assert!(
            layout.name.ends_with(&format!("-{arch}")),
            "{}",
            layout.name
        );
    }
}

/// The sequence count left `psi_group_cpu` between 6.12.0 and 6.12.118; states are tested one by one
/// up to 6.8. Recorded were 6.1.192 on arm64 and 6.12.118 on both.
#[test]
fn access_forms_follow_the_structs_and_the_version() {
    for layout in built_in() {
        let (form, name) = (layout.psi_form, layout.name.as_str());
        let has_seq = layout.field("psi_group_cpu", "seq").is_ok();
        assert_eq!(form.seq_in_group_cpu, has_seq, "{name}");
        let old = ["6.1.", "6.2.", "6.3.", "6.5."]
            .iter()
            .any(|v| name.starts_with(v));
        assert_eq!(form.states_one_by_one, old, "{name}");
        let recorded = [
            "6.1.192-debian-arm64",
            "6.12.118-debian-arm64",
            "6.12.118-debian-x86-64",
        ];
        assert_eq!(form.recorded, recorded.contains(&name), "{name}");
        let strides: &[u32] = if old { &[192, 256] } else { &[320] };
        assert_eq!(layout.allocation.group_cpu_strides_bytes, strides, "{name}");
        assert_eq!(layout.allocation.strides_observed, form.recorded, "{name}");
        assert_eq!(form.arch, layout.arch, "{name}");
    }
}

/// Offsets that the source's prose states beside the tables, so that a slip of a table is seen:
/// `psi_group` keeps parent, enabled and pcpu at 0, 8 and 48 everywhere, `dfl_cgrp` is behind one
/// pointer per subsystem (14, or 12 in the guest) and 16 bytes, `self.parent` is the css's.
#[test]
fn offsets_agree_with_each_other() {
    for layout in built_in() {
        let at = |s: &str, f: &str| layout.field(s, f).unwrap().offset_bytes;
        let name = layout.name.as_str();
        let group = ["parent", "enabled", "pcpu"].map(|f| at("psi_group", f));
        assert_eq!(group, [0, 8, 48], "{name}");
        assert_eq!(at("cgroup", "self"), 0, "{name}");
        assert_eq!(
            at("cgroup", "self.parent"),
            at("cgroup_subsys_state", "parent"),
            "{name}"
        );
        let css = layout.of("cgroup_subsys_state").unwrap().size_bytes;
        assert_eq!(
            layout.field("cgroup", "self").unwrap().size_bytes,
            css,
            "{name}"
        );
        let subsystems = layout.field("css_set", "subsys").unwrap().size_bytes;
        assert_eq!(
            subsystems,
            if name.contains("guest") {
                12 * 8
            } else {
                14 * 8
            },
            "{name}"
        );
        assert_eq!(at("css_set", "dfl_cgrp"), subsystems + 16, "{name}");
        let cpu = at("task_struct", "thread_info.cpu");
        let thread_info = layout
            .field("task_struct", "thread_info")
            .unwrap()
            .size_bytes;
        let expected = match (layout.arch, thread_info) {
            (Arch::X86_64, 24) => 20,
            // flags and preempt_count before it; with ttbr0, scs_base and scs_sp as well.
            (Arch::Arm64, 24) => 16,
            (Arch::Arm64, 48) => 40,
            other => panic!("{name}: no rule for {other:?}"),
        };
        assert_eq!(cpu, expected, "{name}");
    }
}

#[test]
fn a_unique_beginning_will_do() {
    for (asked, found) in [
        ("6.2.1-u", "6.2.1-ubuntu-x86-64"),
        ("6.2.1-ubuntu-x86-64", "6.2.1-ubuntu-x86-64"),
        ("6.18.44", "6.18.44-guest-x86-64"),
        ("6.12.118-debian-a", "6.12.118-debian-arm64"),
    ] {
        assert_eq!(find(asked).unwrap().name, found);
    }
    for (asked, says) in [
        (
            "6.18.2",
            "could be any of 6.18.2-defconfig-arm64, 6.18.2-ubuntu-x86-64",
        ),
        ("7.0", "is unknown; accepted are btf, a file, or"),
        ("", "is unknown"),
    ] {
        let text = find(asked).unwrap_err().to_string();
        assert!(text.contains(says), "{asked}: {text}");
        assert!(!text.contains('\n'), "one sentence: {text}");
    }
    let missing = find("6.2.1-u").unwrap().field("psi_group", "no_such");
    let text = missing.unwrap_err().to_string();
    for part in ["6.2.1-ubuntu-x86-64", "psi_group", "no_such"] {
        assert!(text.contains(part), "{text}");
    }
}

/// `rtpoll_states` was `poll_states` before 6.4: 600 in 6.2, 640 in 6.18.
#[test]
fn renamed_fields_are_found_by_either_name() {
    for (layout, offset) in [("6.2.1-u", 600), ("6.18.2-u", 640)] {
        for name in ["poll_states", "rtpoll_states"] {
            let field = find(layout).unwrap().field("psi_group", name).unwrap();
            assert_eq!(field.offset_bytes, offset, "{layout} {name}");
        }
    }
    for (layout, offset) in [("6.2.1-u", 8), ("6.18.2-u", 8)] {
        for name in ["parent", "__parent"] {
            let field = find(layout).unwrap().field("kernfs_node", name).unwrap();
            assert_eq!(field.offset_bytes, offset, "{layout} {name}");
        }
    }
}

/// A layout file with one struct of 64 bytes, whose fields are `fields`.
fn one_struct(fields: &str) -> String {
    format!(
        r#"
[[layout]]
name = "1.0-mine-arm64"
version = "1.0"
arch = "arm64"
config = "mine"
source = "mine"
access_form = "6.1-arm64"
recorded = false
group_cpu_strides_bytes = [192]
strides_observed = false

[[layout.struct]]
name = "s"
size_bytes = 64
fields_complete = true
fields = [{fields}]
"#
    )
}

fn field(name: &str, offset: i64, size: i64, more: &str) -> String {
    format!(
        "{{ name = \"{name}\", offset_bytes = {offset}, size_bytes = {size}, {more} type_name = \"t\" }},"
    )
}

#[test]
fn files_that_could_not_be_c_are_refused() {
    let good = field("a", 0, 8, "");
    file::parse("f", &one_struct(&good)).unwrap();
    let union = field("a", 0, 8, "union = true,") + &field("b", 4, 8, "union = true,");
    file::parse("f", &one_struct(&union)).unwrap();
    let bits = field("a", 4, 4, "bit_offset = 0, bits = 3,")
        + &field("b", 4, 4, "bit_offset = 3, bits = 5,");
    file::parse("f", &one_struct(&bits)).unwrap();
    let at_end = field("a", 64, 0, "") + &field("b", 63, 4, "bit_offset = 7, bits = 1,");
    file::parse("f", &one_struct(&at_end)).unwrap();

    for (fields, says) in [
        (
            field("a", 0, 8, "") + &field("b", 7, 8, ""),
            "field b: overlaps a",
        ),
        (
            field("a", 0, 8, "union = true,") + &field("b", 4, 8, ""),
            "overlaps a",
        ),
        (
            field("a", 0, 8, "") + &field("a", 8, 8, ""),
            "field a: occurs twice",
        ),
        (field("a", 60, 8, ""), "end beyond the 64 bytes"),
        (field("a", 65, 0, ""), "end beyond the 64 bytes"),
        (
            field("a", 0xffff_fff8, 0xffff_fff8, ""),
            "end beyond the 64 bytes",
        ),
        (field("a", 0x1_0000_0000, 8, ""), "line 17"),
        (field("a", -8, 8, ""), "line 17"),
        (field("a", 0, 8, "colour = 3,"), "unknown field `colour`"),
        (field("a", 0, 8, "bits = 0,"), "bits = 0"),
        (field("a", 0, 4, "bits = 33,"), "bits = 33"),
        (
            field("a", 0, 4, "bit_offset = 1,"),
            "bit_offset without bits",
        ),
        (
            field("a", 0, 4, "bit_offset = 8, bits = 1,"),
            "bit_offset = 8",
        ),
        (field("a", 63, 4, "bit_offset = 7, bits = 2,"), "end beyond"),
        (
            field("a", 4, 4, "bit_offset = 0, bits = 3,")
                + &field("b", 4, 4, "bit_offset = 2, bits = 1,"),
            "field b: overlaps a",
        ),
        (
            field("a", 0, 8, "") + &field("a.b", 8, 8, ""),
            "lies outside a",
        ),
    ] {
        let error = file::parse("some.toml", &one_struct(&fields)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(says), "{fields}: {text}");
        assert!(
            text.starts_with("some.toml") && !text.contains('\n'),
            "{text}"
        );
    }

    let good = one_struct(&good);
    for (from, to, says) in [
        ("size_bytes = 64", "size_bytes = 0", "size_bytes = 0; 1 to"),
        (
            "size_bytes = 64",
            "size_bytes = 4294967295",
            "size_bytes = 4294967295; 1 to",
        ),
        (
            "size_bytes = 64",
            "size_bytes = 64\nalign_bytes = 48",
            "align_bytes = 48",
        ),
        (
            "size_bytes = 64",
            "size_bytes = 64\nalign_bytes = 0",
            "align_bytes = 0",
        ),
        ("= [192]", "= []", "group_cpu_strides_bytes = []"),
        ("= [192]", "= [0]", "group_cpu_strides_bytes = [0]"),
        (
            "6.1-arm64",
            "6.1-x86-64",
            "one of 6.1-arm64, 6.12.0-arm64, 6.12.118-arm64",
        ),
        ("arch = \"arm64\"", "arch = \"vax\"", "one of x86-64, arm64"),
        ("1.0-mine-arm64", "btf", "cannot be asked for"),
        (
            "recorded = false",
            "recorded = false\nrecorded = true",
            "duplicate key",
        ),
        (
            "config = \"mine\"",
            "configuration = \"mine\"",
            "unknown field `configuration`",
        ),
        (
            "name = \"s\"",
            "name = \"psi_group_cpu\"",
            "for a psi_group_cpu with seq",
        ),
        ("version = \"1.0\"", "", "missing field `version`"),
    ] {
        let text = file::parse("f", &good.replace(from, to))
            .unwrap_err()
            .to_string();
        assert!(text.contains(says), "{from} -> {to}: {text}");
        assert!(!text.contains('\n'), "{text}");
    }
    let twice = file::parse("f", &(good.clone() + &good)).unwrap_err();
    assert!(twice.to_string().contains("name occurs twice"), "{twice}");
    let none = file::parse("f", "layout = []").unwrap_err();
    assert!(none.to_string().contains("holds no layout"), "{none}");
}

#[test]
fn files_are_read_by_path_and_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let text = one_struct(&field("a", 0, 8, ""));
    std::fs::write(&path, &text).unwrap();
    let shown = path.display().to_string();
    assert_eq!(resolve(&shown).unwrap(), read_file(&path).unwrap()[0]);
    std::fs::write(&path, text.clone() + &text.replace("1.0-mine", "1.1-mine")).unwrap();
    assert_eq!(
        resolve(&format!("{shown}:1.1")).unwrap().name,
        "1.1-mine-arm64"
    );
    let several = resolve(&shown).unwrap_err().to_string();
    assert!(several.contains("mine.toml:1.0-mine-arm64"), "{several}");
    let absent = resolve("no/such.toml").unwrap_err();
    assert!(matches!(absent, LayoutError::Unreadable { .. }), "{absent}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    /// Whatever one field says, the answer is a layout or an error.
    #[test]
    fn no_field_panics(offset in any::<u32>(), size in any::<u32>(), first in any::<Option<u32>>(),
                       bits in any::<Option<u32>>()) {
        let key = |name: &str, v: Option<u32>| v.map_or(String::new(), |v| format!("{name} = {v},"));
        let more = key("bit_offset", first) + &key("bits", bits);
        let text = one_struct(&field("a", offset.into(), size.into(), &more));
        if let Ok(layouts) = file::parse("f", &text) {
            let f = &layouts[0].structs[0].fields[0];
            let end = f.bits.map_or(f.size_bytes, |(first, bits)| (first + bits).div_ceil(8));
            prop_assert!(f.offset_bytes + end <= 64);
        }
    }
}

/// A tree as /sys/kernel/slab, from the table of one that was recorded.
fn recorded_slabs() -> (tempfile::TempDir, Vec<slab::SlabCache>) {
    let root = tempfile::tempdir().unwrap();
    let table = include_str!("data/slab-6.18.44-2-cpus.txt");
    let mut caches = Vec::new();
    for row in table.lines().filter(|l| !l.starts_with('#')) {
        let words: Vec<&str> = row.split(' ').collect();
        let folder = root.path().join(words[0]);
        std::fs::create_dir(&folder).unwrap();
        let keys = [
            "object_size",
            "slab_size",
            "objs_per_slab",
            "order",
            "align",
        ];
        for (key, value) in keys.iter().zip(&words[1..]) {
            std::fs::write(folder.join(key), format!("{value}\n")).unwrap();
        }
        caches.push(slab::read(root.path(), words[0]).unwrap());
    }
    (root, caches)
}

/// Every kmalloc class of a recorded Linux with 2 CPUs, and two caches of their own, by the rules.
#[test]
fn slab_rules_agree_with_a_recorded_linux() {
    let (root, caches) = recorded_slabs();
    assert_eq!(caches.len(), slab::KMALLOC_CLASSES_BYTES.len() + 2);
    for observed in &caches {
        let rule = if observed.name.starts_with("kmalloc-") {
            slab::predicted(observed.object_bytes, 2)
        } else {
            slab::predicted_cache(
                &observed.name,
                observed.object_bytes,
                observed.align_bytes,
                2,
            )
        };
        assert_eq!(rule.as_ref(), Some(observed));
        assert!(slab::differences(&rule.unwrap(), observed).is_empty());
    }
    // One CPU wants 8 objects of 1 KiB instead of 12: order 1 instead of 2.
    let one = slab::predicted(720, 1).unwrap();
    let two = slab::read(root.path(), "kmalloc-1k").unwrap();
    assert_eq!(
        slab::differences(&one, &two),
        [
            "kmalloc-1k: objects per slab is 16 here, 8 by the rules",
            "kmalloc-1k: slab order is 2 here, 1 by the rules"
        ]
    );
    let note = slab::allocation_notes("psi_group", 720, 1, Some(root.path()));
    assert!(note[0].contains("differs on this host"), "{note:?}");
    let absent = slab::read(root.path(), "no-such").unwrap_err();
    assert!(absent.contains("cannot be read"), "{absent}");
    for junk in ["", "x", "-1", "99999999999", "4000"] {
        std::fs::write(root.path().join("kmalloc-1k/order"), junk).unwrap();
        slab::read(root.path(), "kmalloc-1k").expect_err(junk);
    }
}

/// 16 bytes of tasks, 4 of mask and 28 of times end at 48; 48 + 8 = 56 leaves a hole of 8 up to the
/// second line; 64 + 56 = 120 leaves 8 of padding.
#[test]
fn listing_of_psi_group_cpu() {
    let layout = find("6.18.2-ubuntu-x86-64").unwrap();
    insta::assert_snapshot!(listing::listing(layout, "psi_group_cpu").unwrap());
}

/// Bytes of fields, holes and padding of a complete struct add up to its size, unions counted once;
/// nothing is wider than 100 columns.
#[test]
fn listings_add_up_and_fit() {
    for layout in built_in() {
        for s in &layout.structs {
            let text = listing::listing(layout, &s.name).unwrap();
            for line in text.lines() {
                let width = line.chars().count();
                assert!(width <= 100 && line.trim_end() == line, "{width}: {line:?}");
            }
            if s.fields_complete {
                let gaps: u32 = text
                    .lines()
                    .filter(|l| l.ends_with("(hole)") || l.ends_with("(padding)"))
                    .map(|l| l.split_whitespace().nth(1).unwrap().parse::<u32>().unwrap())
                    .sum();
                assert_eq!(
                    covered_bytes(s) + gaps,
                    s.size_bytes,
                    "{} {}",
                    layout.name,
                    s.name
                );
            } else {
                assert!(text.contains("a gap is not a hole"), "{text}");
            }
        }
    }
}

/// Bytes that belong to some field, by marking each one.
fn covered_bytes(s: &StructLayout) -> u32 {
    let mut covered = vec![false; s.size_bytes as usize];
    for f in &s.fields {
        for byte in f.offset_bytes..f.offset_bytes + f.size_bytes {
            covered[byte as usize] = true;
        }
    }
    covered.iter().map(|&c| u32::from(c)).sum()
}

//! Layouts from BTF: made here, damaged, and of the host.

use std::path::Path;

use kernels::layout::{Arch, FieldLayout, Layout};
use kwalk::layouts::btf::{self, Origin};
use kwalk::layouts::{LayoutError, find};

mod btf_writer;
use btf_writer::{BtfWriter, Kind, Member};

fn origin(version: &str) -> Origin {
    Origin {
        file: "made.btf".into(),
        version: version.into(),
        arch: Arch::X86_64,
    }
}

/// A BTF with everything that the reader tells apart: qualifiers, an anonymous union with an
/// anonymous struct in it, bit fields, arrays of arrays, function pointers, embedded structs.
fn small_btf() -> BtfWriter {
    let mut w = BtfWriter::default();
    let int = w.int("unsigned int", 4);
    let long = w.int("long unsigned int", 8);
    let uint = w.add("u32", Kind::Typedef(int));
    let volatile = w.add("", Kind::Volatile(uint));
    let pointer_to_group = w.next() + 1;
    let pair = w.add("", Kind::Array(uint, 2));
    assert_eq!(w.add("", Kind::Ptr(pointer_to_group + 1)), pointer_to_group);
    w.add(
        "psi_group",
        Kind::Struct(
            16,
            vec![
                Member::new("parent", pointer_to_group, 0),
                Member::new("pcpu", pointer_to_group, 64),
            ],
        ),
    );
    let table = w.add("", Kind::Array(pair, 3));
    w.add(
        "psi_group_cpu",
        Kind::Struct(
            32,
            vec![
                Member::new("seq", volatile, 0),
                Member::new("times", table, 32),
            ],
        ),
    );
    let info = w.add(
        "thread_info",
        Kind::Struct(
            16,
            vec![Member::new("flags", long, 0), Member::new("cpu", uint, 96)],
        ),
    );
    let inner = w.add(
        "",
        Kind::Struct(
            8,
            vec![Member::new("low", uint, 0), Member::new("high", uint, 32)],
        ),
    );
    let either = w.add(
        "",
        Kind::Union(
            8,
            vec![Member::new("both", long, 0), Member::new("", inner, 0)],
        ),
    );
    let function = w.add("", Kind::FuncProto(int));
    let hook = w.add("", Kind::Ptr(function));
    w.add(
        "task_struct",
        Kind::BitStruct(
            48,
            vec![
                Member::new("thread_info", info, 64),
                Member::new("", either, 192),
                Member::bits("in_iowait", int, 256 + 9, 1),
                Member::bits("mode", int, 256 + 10, 3),
                Member::new("hook", hook, 320),
            ],
        ),
    );
    w
}

fn plain(name: &str, offset: u32, size: u32, type_name: &str) -> FieldLayout {
    FieldLayout {
        name: name.into(),
        offset_bytes: offset,
        size_bytes: size,
        bits: None,
        type_name: type_name.into(),
    }
}

/// Byte offset = bit offset / 8; the union's members lie at 192 / 8 = 24, the second half of its
/// inner struct 4 further on; bit 256 + 9 is bit 1 of byte 33; `thread_info.cpu` is at 8 + 12.
#[test]
fn btf_is_flattened() {
    let layout = btf::from_bytes(&small_btf().bytes(), &origin("6.3.0"), &["no_such"]).unwrap();
    assert_eq!(layout.structs.len(), 3);
    let bit = |name: &str, first, bits| FieldLayout {
        bits: Some((first, bits)),
        ..plain(name, 33, 4, "unsigned int")
    };
    let expected = [
        plain("thread_info", 8, 16, "struct thread_info"),
        plain("thread_info.cpu", 20, 4, "u32"),
        plain("both", 24, 8, "long unsigned int"),
        plain("low", 24, 4, "u32"),
        plain("high", 28, 4, "u32"),
        bit("in_iowait", 1, 1),
        bit("mode", 2, 3),
        plain("hook", 40, 8, "unsigned int (*)()"),
    ];
    let task = layout.of("task_struct").unwrap();
    assert_eq!(task.fields, expected);
    assert_eq!((task.size_bytes, task.align_bytes), (48, None));
    let group = &layout.of("psi_group").unwrap().fields;
    assert_eq!(group[1], plain("pcpu", 8, 8, "struct psi_group *"));
    let cpu = &layout.of("psi_group_cpu").unwrap().fields;
    assert_eq!(cpu[0], plain("seq", 0, 4, "volatile u32"));
    assert_eq!(cpu[1], plain("times", 4, 24, "u32[3][2]"));
}

/// 6.1 to 6.8: seq and states one by one; 6.12.0 has seq and tests states at once; strides are those
/// of 6.1 before 6.12 and 320 from there on.
#[test]
fn the_form_of_btf_is_inferred_from_version_and_seq() {
    for (version, one_by_one, strides) in [
        ("6.1.192", true, &[192, 256][..]),
        ("6.8.0-31-generic", true, &[192, 256]),
        ("6.9.0", false, &[192, 256]),
        ("6.12.0-10-generic", false, &[320]),
    ] {
        let layout = btf::from_bytes(&small_btf().bytes(), &origin(version), &[]).unwrap();
        let form = layout.psi_form;
        assert!(form.seq_in_group_cpu && !form.recorded, "{version}");
        assert_eq!(form.states_one_by_one, one_by_one, "{version}");
        assert_eq!(
            layout.allocation.group_cpu_strides_bytes, strides,
            "{version}"
        );
        assert!(!layout.allocation.strides_observed);
    }
    let mut w = BtfWriter::default();
    let int = w.int("u32", 4);
    w.add(
        "psi_group_cpu",
        Kind::Struct(4, vec![Member::new("tasks", int, 0)]),
    );
    let form = btf::from_bytes(&w.bytes(), &origin("6.18.2"), &[])
        .unwrap()
        .psi_form;
    assert!(!form.seq_in_group_cpu && !form.states_one_by_one);
}

/// Every beginning of it is refused (the header says how long it is), and no flipped bit makes
/// anything worse than an error.
#[test]
fn damaged_btf_is_refused_without_panic() {
    let bytes = small_btf().bytes();
    for length in 0..bytes.len() {
        let error = btf::from_bytes(&bytes[..length], &origin("6.3.0"), &[]).unwrap_err();
        assert!(
            matches!(error, LayoutError::Btf { .. }),
            "{length}: {error}"
        );
    }
    let mut accepted = 0;
    for bit in 0..8 * bytes.len() {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        accepted += u32::from(btf::from_bytes(&damaged, &origin("6.3.0"), &[]).is_ok());
    }
    assert!(accepted > 0, "a letter of a name may differ");
    for (bytes, says) in [
        (
            &b"\x7fELF and much more than 24 bytes of it"[..],
            "is not BTF",
        ),
        (&[0xeb, 0x9f, 1, 0, 0, 0, 0, 24], "big-endian"),
        (&[], "shorter than the header"),
    ] {
        let text = btf::from_bytes(bytes, &origin("6.3.0"), &[])
            .unwrap_err()
            .to_string();
        assert!(text.contains(says) && text.contains("made.btf"), "{text}");
    }
}

/// Types that contain themselves, or that multiply: bounded work, and an error.
#[test]
fn endless_types_are_refused() {
    let cases: [fn(&mut BtfWriter) -> u32; 5] = [
        |w| w.add("loop", Kind::Typedef(w.next())),
        |w| w.add("", Kind::Array(w.next(), 2)),
        |w| w.add("", Kind::Ptr(w.next())),
        |w| {
            let int = w.int("int", 4);
            let mut array = int;
            for _ in 0..4 {
                array = w.add("", Kind::Array(array, 65_536));
            }
            array
        },
        |_| 4_000_000,
    ];
    for (i, case) in cases.iter().enumerate() {
        let mut w = BtfWriter::default();
        let id = case(&mut w);
        w.add("rq", Kind::Struct(64, vec![Member::new("curr", id, 0)]));
        let error = btf::from_bytes(&w.bytes(), &origin("6.3.0"), &[]);
        let text = error.expect_err(&format!("case {i}")).to_string();
        assert!(text.contains("struct rq"), "{text}");
    }
    // An anonymous struct that holds two of the one before: 2^40 members, or itself.
    let mut w = BtfWriter::default();
    let mut inner = w.int("int", 4);
    for level in 0..40 {
        let name = if level == 0 { "x" } else { "" };
        inner = w.add(
            "",
            Kind::Struct(
                4,
                vec![Member::new(name, inner, 0), Member::new(name, inner, 0)],
            ),
        );
    }
    w.add("rq", Kind::Struct(64, vec![Member::new("", inner, 0)]));
    btf::from_bytes(&w.bytes(), &origin("6.3.0"), &[]).unwrap_err();
    let mut w = BtfWriter::default();
    w.add("rq", Kind::Struct(64, vec![Member::new("", w.next(), 0)]));
    btf::from_bytes(&w.bytes(), &origin("6.3.0"), &[]).unwrap_err();
    let mut w = BtfWriter::default();
    let int = w.int("int", 4);
    w.add(
        "rq",
        Kind::Struct(64, vec![Member::new("curr", int, 8 * 62)]),
    );
    let text = btf::from_bytes(&w.bytes(), &origin("6.3.0"), &[])
        .unwrap_err()
        .to_string();
    assert!(text.contains("curr ends beyond its 64 bytes"), "{text}");
}

/// Where the Linux of the `6.18.44-guest` entry runs, its BTF gives the entry, field by field; the
/// entry was taken with another reader of BTF.
#[test]
fn btf_of_the_host_equals_its_entry() {
    let path = Path::new(btf::VMLINUX);
    let version = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if !path.exists() || !version.starts_with("6.18.44-") {
        eprintln!(
            "SKIPPED: needs {} of 6.18.44, this is {version}",
            path.display()
        );
        return;
    }
    let host: &Layout = btf::running().unwrap();
    let entry = find("6.18.44-guest-x86-64").unwrap();
    if host.of("css_set").unwrap().size_bytes != entry.of("css_set").unwrap().size_bytes {
        eprintln!("SKIPPED: this 6.18.44 has another configuration than the entry");
        return;
    }
    assert_eq!(host.psi_form, entry.psi_form);
    assert_eq!(host.allocation, entry.allocation);
    for expected in &entry.structs {
        let have = host.of(&expected.name).unwrap();
        assert_eq!(have.size_bytes, expected.size_bytes, "{}", expected.name);
        if expected.fields_complete {
            assert_eq!(have.fields, expected.fields, "{}", expected.name);
        }
        for f in &expected.fields {
            assert_eq!(
                host.field(&expected.name, &f.name).unwrap(),
                f,
                "{}",
                expected.name
            );
        }
    }
    // Cutting the real thing: errors, no panic, no hang.
    let bytes = std::fs::read(path).unwrap();
    for length in [0, 23, 24, 4096, bytes.len() / 2, bytes.len() - 1] {
        btf::from_bytes(&bytes[..length], &origin("6.18.44"), &[]).unwrap_err();
    }
}

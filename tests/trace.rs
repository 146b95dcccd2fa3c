//! Trace readers: what each format means, and that no input makes them panic or read differently
//! by how it arrives.

use std::io::{self, Cursor, Read, Write as _};

use flate2::{Compression, write::GzEncoder};
use kwalk::trace::{Format, Kind, Reference, Source, Trace, TraceError, din, raw};
use proptest::prelude::*;

fn reference(kind: Kind, addr: u64, bytes: u32, site: u64) -> Reference {
    Reference {
        kind,
        bytes,
        addr,
        site,
    }
}

/// All references, and the error after them.
fn read_all(mut trace: Trace) -> (Vec<Reference>, Option<TraceError>) {
    let (mut all, mut block) = (Vec::new(), Vec::new());
    loop {
        match trace.read_block(&mut block) {
            Ok(true) => all.extend_from_slice(&block),
            Ok(false) => return (all, None),
            Err(error) => {
                assert!(
                    !trace
                        .read_block(&mut block)
                        .expect("after an error, the end")
                );
                return (all, Some(error));
            }
        }
    }
}

fn read(bytes: &[u8], format: Option<Format>) -> (Vec<Reference>, Option<TraceError>) {
    let source = Source::of("test", Box::new(Cursor::new(bytes.to_vec())));
    match Trace::open(source, format) {
        Ok(trace) => read_all(trace),
        Err(error) => (Vec::new(), Some(error)),
    }
}

fn whole(bytes: &[u8], format: Option<Format>) -> Vec<Reference> {
    let (references, error) = read(bytes, format);
    assert!(error.is_none(), "{}", error.expect("there is one"));
    references
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).expect("memory takes all");
    out.finish().expect("memory takes all")
}

/// As valgrind's manual shows the format.
const LACKEY: &str = "==8315== Lackey, an example Valgrind tool\n==8315== \nI  0023C790,2\n \
                      S be80199c,4\n--8315-- warning\nI  0025747b,3\n L be801950,16\n M \
                      0x\n";

#[test]
fn lackey_references_know_their_instruction() {
    let text = LACKEY.replace(" M 0x\n", " M ffffffffffffffff,1\n==8315== \n");
    let expected = [
        reference(Kind::Fetch, 0x23_c790, 2, 0x23_c790),
        reference(Kind::Store, 0xbe80_199c, 4, 0x23_c790),
        reference(Kind::Fetch, 0x25_747b, 3, 0x25_747b),
        reference(Kind::Load, 0xbe80_1950, 16, 0x25_747b),
        reference(Kind::Modify, u64::MAX, 1, 0x25_747b),
    ];
    assert_eq!(whole(text.as_bytes(), None), expected);
    let crlf = text.replace('\n', "\r\n");
    assert_eq!(whole(crlf.as_bytes(), None), expected);
}

/// A trace without a newline at its end is read and said to be so: its last size may be cut.
#[test]
fn an_unended_line_is_told() {
    for (text, unended) in [(" L 1000,8\n", false), (" L 1000,8\n S 1000,1", true)] {
        let source = Source::of("test", Box::new(text.as_bytes()));
        let mut trace = Trace::open(source, None).expect("a trace");
        let mut block = Vec::new();
        while trace.read_block(&mut block).expect("a whole trace") {}
        assert_eq!(trace.last_line_is_unended(), unended, "{text}");
        assert_eq!(trace.references(), 1 + u64::from(unended));
    }
}

/// Dinero IV: the traditional form has words of 4 bytes and comments; the extended one has sizes.
#[test]
fn din_in_both_forms() {
    let text = "0 1003\n1\t0x2000 a comment\n  2 3000 # none\nr 1003 2\nw 0X2000 10 comment\n\
                i 3000 f\n0 1003 8\n1 FFFFFFFFFFFFFFFF 0x1\n";
    let expected = [
        reference(Kind::Load, 0x1000, 4, 0),
        reference(Kind::Store, 0x2000, 4, 0),
        reference(Kind::Fetch, 0x3000, 4, 0),
        reference(Kind::Load, 0x1003, 2, 0),
        reference(Kind::Store, 0x2000, 16, 0),
        reference(Kind::Fetch, 0x3000, 15, 0),
        reference(Kind::Load, 0x1003, 8, 0),
        reference(Kind::Store, u64::MAX, 1, 0),
    ];
    assert_eq!(whole(text.as_bytes(), Some(Format::Din)), expected);
}

#[test]
fn raw_words_are_loads_of_a_byte() {
    let addresses = [0, 0x7fff_0000_1234, u64::MAX];
    let bytes: Vec<u8> = addresses
        .iter()
        .flat_map(|a: &u64| a.to_le_bytes())
        .collect();
    let expected = addresses.map(|addr| reference(Kind::Load, addr, 1, 0));
    assert_eq!(whole(&bytes, None), expected);
    assert_eq!(whole(&gzipped(&bytes), None), expected);
}

/// Two gzip members one after another are one trace.
#[test]
fn gzip_is_told_by_its_bytes() {
    let mut bytes = gzipped(b"0 1000\n0 20");
    bytes.extend(gzipped(b"00\n1 3000\n"));
    let expected = whole(b"0 1000\n0 2000\n1 3000\n", None);
    assert_eq!(whole(&bytes, None), expected);
    assert_eq!(expected.len(), 3);
}

/// What is wrong, how it is told, and how many references came before it.
#[test]
fn errors_are_one_sentence_with_the_place() {
    let long = [b"0 1000 ".to_vec(), vec![b'x'; 70 << 10], b"\n".to_vec()].concat();
    let cut = gzipped(&b" L 1000,8\n".repeat(100_000));
    let half = &cut[..cut.len() - 9];
    let (lackey, din, raw) = (Format::Lackey, Format::Din, Format::RawU64);
    for (bytes, format, kind, words, before) in [
        (&b""[..], None, "empty", &["test", "is empty"][..], 0),
        (b"==1== \n", None, "empty", &["holds no reference"], 0),
        (
            b"Hello\n",
            None,
            "unknown-format",
            &["Hello", "--format"],
            0,
        ),
        (
            b" L 1000,8\nHello\x1b[2J\n",
            Some(lackey),
            "record",
            &["line 2", "\"Hello\\x1b[2J\"", "accepted"],
            1,
        ),
        (b" L 1000,8\n\n", Some(lackey), "record", &["line 2"], 1),
        (
            b" L 1000 8\n",
            Some(lackey),
            "record",
            &["line 1", "comma"],
            0,
        ),
        (b" L ,8\n", Some(lackey), "record", &["address"], 0),
        (
            b" L 10000000000000000,8\n",
            Some(lackey),
            "record",
            &["64"],
            0,
        ),
        (b" L 1000,-8\n", Some(lackey), "record", &["size"], 0),
        (
            b" L 1000,8\n S 20",
            Some(lackey),
            "cut",
            &["byte 10", "S 20"],
            1,
        ),
        (
            b" L 1000,0\n",
            Some(lackey),
            "size",
            &["line 1", "0 bytes"],
            0,
        ),
        (b" L 1000,4097\n", Some(lackey), "size", &["4097"], 0),
        (
            b" L 1000,1\n L ffffffffffffffff,2\n",
            Some(lackey),
            "beyond",
            &["line 2", "0xffffffffffffffff", "2^64"],
            1,
        ),
        (b"3 1000\n", Some(din), "record", &["label", "0 or r"], 0),
        (b"0 xyz\n", Some(din), "record", &["address"], 0),
        (b"0 1000\n\n", Some(din), "record", &["line 2", "empty"], 1),
        (b"r 1000\n", Some(din), "record", &["size is missing"], 0),
        (b"0 1000\nw 1000", Some(din), "cut", &["byte 7"], 1),
        (b"0 1000 0\n", Some(din), "size", &["0 bytes"], 0),
        (
            b"w ffffffffffffffff 2\n",
            Some(din),
            "beyond",
            &["line 1"],
            0,
        ),
        (&long, Some(din), "record", &["64 KiB"], 0),
        (&[0; 15], Some(raw), "cut", &["byte 8", "7 of the 8"], 1),
        (half, None, "gzip", &["line", "gzip", "accepted"], 90_000),
        (
            b"\x1f\x8b\x08junk and more junk",
            None,
            "gzip",
            &["byte 0"],
            0,
        ),
    ] {
        let shown = bytes[..bytes.len().min(40)].escape_ascii().to_string();
        let (references, error) = read(bytes, format);
        let error = error.unwrap_or_else(|| panic!("{shown}: no error"));
        let message = error.to_string();
        assert_eq!(error.kind(), kind, "{shown}: {message}");
        for word in words {
            assert!(
                message.contains(word),
                "{shown}: {word} is not in: {message}"
            );
        }
        assert_eq!(message.lines().count(), 1, "{message}");
        let enough = references.len() >= before && (before > 1 || references.len() == before);
        assert!(enough, "{shown}: {} references", references.len());
    }
}

#[test]
fn a_missing_file_is_named() {
    let opened = Trace::open(Source::named("no/such.din"), None);
    let message = opened.err().expect("it is not there").to_string();
    assert!(
        message.starts_with("no/such.din: cannot be opened"),
        "{message}"
    );
}

/// Hands out a few bytes at a time, and is interrupted between.
struct Sparse {
    bytes: Cursor<Vec<u8>>,
    step: usize,
    turn: bool,
}

impl Read for Sparse {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.turn = !self.turn;
        if self.turn {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let step = self.step.min(buffer.len());
        self.bytes.read(&mut buffer[..step])
    }
}

/// What is read, errors included, does not depend on how bytes arrive or on the size of blocks.
fn same_in_all_chunks(bytes: &[u8], format: Option<Format>, step: usize, block: usize) {
    let (references, error) = read(bytes, format);
    let sparse = Sparse {
        bytes: Cursor::new(bytes.to_vec()),
        step,
        turn: false,
    };
    let opened = Trace::in_blocks(Source::of("test", Box::new(sparse)), format, block);
    let (others, other) = match opened {
        Ok(trace) => read_all(trace),
        Err(error) => (Vec::new(), Some(error)),
    };
    assert_eq!(references, others);
    let words = |e: Option<TraceError>| e.map(|e| e.to_string());
    let (message, other) = (words(error), words(other));
    assert_eq!(message, other);
    if let Some(message) = message {
        assert!(!message.contains(['\n', '\r', '\x1b']), "{message:?}");
        assert!(message.len() < 400, "{message}");
    }
    for r in references {
        assert!(r.bytes > 0 && r.addr.checked_add(u64::from(r.bytes) - 1).is_some());
    }
}

/// Pieces of records and of what is none, so that streams come near to being right.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => Just(&b" L 1fff000768,8\n"[..]),
        8 => Just(&b"I  0401ab70,3\n"[..]),
        4 => Just(&b" M ffffffffffffffff,1\n"[..]),
        2 => Just(&b"==1== x\n"[..]),
        8 => Just(&b"0 1000\n"[..]),
        4 => Just(&b"w 1003 8\n"[..]),
        1 => Just(&b"\n"[..]),
        1 => Just(&b","[..]),
        1 => Just(&b" "[..]),
        1 => Just(&b"\r"[..]),
        1 => Just(&b"ffffffff"[..]),
        1 => Just(&b"\x1f\x8b\x08"[..]),
        1 => Just(&b"\x00\xff"[..]),
    ];
    prop::collection::vec(piece, 0..200).prop_map(|pieces| pieces.concat())
}

fn formats() -> impl Strategy<Value = Option<Format>> {
    prop_oneof![
        Just(None),
        Just(Some(Format::Lackey)),
        Just(Some(Format::Din)),
        Just(Some(Format::RawU64)),
    ]
}

fn references() -> impl Strategy<Value = Vec<Reference>> {
    let kind = prop_oneof![Just(Kind::Load), Just(Kind::Store), Just(Kind::Fetch)];
    let one = (kind, any::<u64>(), 1..=4096_u32, 0..64_u32).prop_map(|(kind, addr, bytes, low)| {
        let addr = (addr >> low).min(u64::MAX - u64::from(bytes - 1));
        reference(kind, addr, bytes, 0)
    });
    prop::collection::vec(one, 1..100)
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        format in formats(), step in 1..40_usize, block in 1..40_usize,
    ) {
        same_in_all_chunks(&bytes, format, step, block);
    }

    #[test]
    fn almost_traces_are_read_or_refused(
        bytes in pieces(), format in formats(), step in 1..90_usize, block in 1..40_usize,
    ) {
        same_in_all_chunks(&bytes, format, step, block);
    }

    #[test]
    fn broken_gzip_is_read_or_refused(
        bytes in pieces(), at in any::<prop::sample::Index>(), with in any::<u8>(),
        cut in any::<prop::sample::Index>(), format in formats(), step in 1..40_usize,
    ) {
        let mut bytes = gzipped(&bytes);
        let at = at.index(bytes.len());
        bytes[at] = with;
        bytes.truncate(cut.index(2 * bytes.len()) + 1);
        same_in_all_chunks(&bytes, format, step, 7);
    }

    /// What `din::write` writes says the same when it is read.
    #[test]
    fn din_comes_back(references in references()) {
        let mut text = Vec::new();
        din::write(&references, &mut text).expect("memory takes all");
        prop_assert_eq!(whole(&text, Some(Format::Din)), references);
    }

    #[test]
    fn raw_comes_back(references in references()) {
        let mut bytes = Vec::new();
        raw::write(&references, &mut bytes).expect("memory takes all");
        let addresses: Vec<u64> = whole(&bytes, Some(Format::RawU64)).iter().map(|r| r.addr).collect();
        let expected: Vec<u64> = references.iter().map(|r| r.addr).collect();
        prop_assert_eq!(addresses, expected);
    }
}

/// More than one buffer of text and more than one block: nothing is lost where they meet.
#[test]
fn long_traces_have_no_seams() {
    let mut text = String::new();
    for i in 0..200_000_u64 {
        text.push_str(&format!(" L {:x},{}\n", i * 64, i % 8 + 1));
    }
    for bytes in [text.as_bytes().to_vec(), gzipped(text.as_bytes())] {
        let references = whole(&bytes, None);
        assert_eq!(references.len(), 200_000);
        for (i, r) in references.iter().enumerate() {
            let i = i as u64;
            assert_eq!((r.addr, u64::from(r.bytes)), (i * 64, i % 8 + 1));
        }
    }
}

/// A modify is a read and a write in din; sizes of 10 to 15 bytes begin with a digit there.
#[test]
fn din_as_dinero_reads_it() {
    let mut text = Vec::new();
    let references = [
        reference(Kind::Modify, 0x1fff_0003, 12, 7),
        reference(Kind::Fetch, 0x40, 3, 0x40),
    ];
    din::write(&references, &mut text).expect("memory takes all");
    assert_eq!(text, b"0 1fff0003 0c\n1 1fff0003 0c\n2 40 3\n");
}

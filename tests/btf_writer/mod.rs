//! Writes small BTF, to have some whose every type is known. Format: Linux,
//! Documentation/bpf/btf.rst.

/// A type by its kind; numbers are type ids and sizes in bytes.
pub enum Kind {
    Int(u32),
    Ptr(u32),
    Array(u32, u32),
    Struct(u32, Vec<Member>),
    /// With the flag that makes room for bit fields.
    BitStruct(u32, Vec<Member>),
    Union(u32, Vec<Member>),
    Typedef(u32),
    Volatile(u32),
    FuncProto(u32),
}

pub struct Member {
    name: &'static str,
    type_id: u32,
    offset_bits: u32,
    bits: u32,
}

impl Member {
    pub fn new(name: &'static str, type_id: u32, offset_bits: u32) -> Member {
        Member::bits(name, type_id, offset_bits, 0)
    }

    pub fn bits(name: &'static str, type_id: u32, offset_bits: u32, bits: u32) -> Member {
        Member {
            name,
            type_id,
            offset_bits,
            bits,
        }
    }
}

#[derive(Default)]
pub struct BtfWriter {
    types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
}

impl BtfWriter {
    /// The id that the next type gets.
    pub fn next(&self) -> u32 {
        self.count + 1
    }

    pub fn int(&mut self, name: &'static str, bytes: u32) -> u32 {
        self.add(name, Kind::Int(bytes))
    }

    pub fn add(&mut self, name: &'static str, kind: Kind) -> u32 {
        let (number, flag, value) = match &kind {
            Kind::Int(bytes) => (1, 0, *bytes),
            Kind::Ptr(to) => (2, 0, *to),
            Kind::Array(..) => (3, 0, 0),
            Kind::Struct(bytes, _) => (4, 0, *bytes),
            Kind::BitStruct(bytes, _) => (4, 1, *bytes),
            Kind::Union(bytes, _) => (5, 0, *bytes),
            Kind::Typedef(to) => (8, 0, *to),
            Kind::Volatile(to) => (9, 0, *to),
            Kind::FuncProto(result) => (13, 0, *result),
        };
        let length = u32::try_from(members_of(&kind).len()).unwrap();
        let name = self.string(name);
        self.words(&[name, flag << 31 | number << 24 | length, value]);
        match &kind {
            Kind::Int(bytes) => self.words(&[8 * bytes]),
            Kind::Array(element, elements) => self.words(&[*element, 1, *elements]),
            _ => {}
        }
        for m in members_of(&kind) {
            let name = self.string(m.name);
            self.words(&[name, m.type_id, m.bits << 24 | m.offset_bits]);
        }
        self.count += 1;
        self.count
    }

    fn string(&mut self, text: &str) -> u32 {
        if self.strings.is_empty() {
            self.strings.push(0);
        }
        if text.is_empty() {
            return 0;
        }
        let at = u32::try_from(self.strings.len()).unwrap();
        self.strings.extend(text.bytes().chain([0]));
        at
    }

    fn words(&mut self, words: &[u32]) {
        for word in words {
            self.types.extend(word.to_le_bytes());
        }
    }

    /// Header, types, strings.
    pub fn bytes(&self) -> Vec<u8> {
        let length = |b: &[u8]| u32::try_from(b.len()).unwrap();
        let (types, strings) = (length(&self.types), length(&self.strings));
        let mut out = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, types, types, strings] {
            out.extend(word.to_le_bytes());
        }
        out.extend(&self.types);
        out.extend(&self.strings);
        out
    }
}

fn members_of(kind: &Kind) -> &[Member] {
    match kind {
        Kind::Struct(_, members) | Kind::BitStruct(_, members) | Kind::Union(_, members) => members,
        _ => &[],
    }
}

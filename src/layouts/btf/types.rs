//! The types in a BTF, flattened to fields.
//!
//! `btfparse` splits the bytes into types; offsets, sizes and names are worked out here, because its
//! own `size_of` and `offset_of` recurse without a limit and multiply unchecked on hostile input.

use std::collections::BTreeMap;

use btfparse::{
    Error as BtfError, ErrorKind, Offset, Readable, Result as BtfResult, TypeInformation,
    TypeVariant,
};
use kernels::layout::{FieldLayout, StructLayout};

use crate::layouts::file::sort_fields;

/// Fields of embedded structs that kernels ask for: struct, member, field in it.
const NESTED: [(&str, &str, &str); 2] = [
    ("cgroup", "self", "parent"),
    ("task_struct", "thread_info", "cpu"),
];

/// Chains of typedefs, qualifiers, arrays and anonymous members in Linux are shorter than this.
const MAX_DEPTH: u32 = 32;

/// More members than any struct of Linux has; bounds the work on hostile input.
const MAX_MEMBERS: u32 = 20_000;

/// Size of a pointer on both architectures, in bytes.
const POINTER_BYTES: u32 = 8;

/// Bytes in memory, as btfparse wants to read them.
struct Bytes<'a>(&'a [u8]);

impl Readable for Bytes<'_> {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> BtfResult<()> {
        let range = usize::try_from(offset)
            .ok()
            .and_then(|start| Some(start..start.checked_add(buffer.len())?));
        let source = range
            .and_then(|r| self.0.get(r))
            .ok_or_else(|| BtfError::new(ErrorKind::EOF, "the data end too early"))?;
        buffer.copy_from_slice(source);
        Ok(())
    }
}

/// Check what btfparse takes for granted: that both sections lie in the file, so that no sum of
/// offsets overflows, and that every string ends. Format: Linux, Documentation/bpf/btf.rst.
fn check_header(bytes: &[u8]) -> Result<(), String> {
    let word = |at: usize| {
        let raw = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
        raw.map(u32::from_le_bytes).map(u64::from)
    };
    let short = || "is shorter than the header of BTF, 24 bytes".to_string();
    let magic = bytes.get(..4).ok_or_else(short)?;
    if magic[..2] == [0xeb, 0x9f] {
        return Err("is big-endian BTF; x86-64 and arm64 are little-endian".into());
    }
    if magic[..3] != [0x9f, 0xeb, 1] {
        return Err("is not BTF of version 1 (it begins with the bytes 9f eb 01)".into());
    }
    let all = [4, 8, 12, 16, 20].map(word);
    let [
        Some(header),
        Some(type_at),
        Some(type_bytes),
        Some(string_at),
        Some(string_bytes),
    ] = all
    else {
        return Err(short());
    };
    let length = bytes.len() as u64;
    let sections = [(type_at, type_bytes), (string_at, string_bytes)];
    if header < 24 || length > u64::from(u32::MAX) {
        return Err(format!(
            "has a header of {header} bytes in {length}; 24 or more"
        ));
    }
    if sections
        .iter()
        .any(|(at, size)| header + at + size > length)
    {
        return Err(format!(
            "is cut off: its sections reach beyond its {length} bytes"
        ));
    }
    let end = usize::try_from(header + string_at + string_bytes).map_err(|e| e.to_string())?;
    if string_bytes == 0 || bytes[end - 1] != 0 {
        return Err("has a string section that does not end with a zero byte".into());
    }
    Ok(())
}

/// All types of one BTF.
pub(super) struct Types {
    all: TypeInformation,
}

/// A member of a struct, anonymous ones already opened.
struct Found {
    name: String,
    type_id: u32,
    start_bits: u32,
    /// 0 for a member that is no bit field.
    bits: u32,
}

impl Types {
    pub(super) fn parse(bytes: &[u8]) -> Result<Types, String> {
        check_header(bytes)?;
        let all = TypeInformation::new(&Bytes(bytes))
            .map_err(|e| format!("is damaged: {}", e.message()))?;
        Ok(Types { all })
    }

    fn map(&self) -> &BTreeMap<u32, TypeVariant> {
        self.all.get()
    }

    fn get(&self, type_id: u32) -> Result<&TypeVariant, String> {
        static VOID: TypeVariant = TypeVariant::Void;
        match type_id {
            0 => Ok(&VOID),
            _ => (self.map().get(&type_id)).ok_or_else(|| format!("type {type_id} does not exist")),
        }
    }

    /// The struct `name` if there is one with members.
    pub(super) fn layout(&self, name: &str, source: &str) -> Result<Option<StructLayout>, String> {
        let found = self.map().iter().find_map(|(&id, t)| match t {
            TypeVariant::Struct(s) if s.name().as_deref() == Some(name) => Some((id, *s.size())),
            _ => None,
        });
        let Some((id, size)) = found.filter(|(_, size)| *size > 0) else {
            return Ok(None);
        };
        let size_bytes = u32::try_from(size).map_err(|e| e.to_string())?;
        let members = self.members(id)?;
        let mut fields = Vec::new();
        for m in &members {
            fields.push(self.field(m, m.name.clone(), 0)?);
            let nested = NESTED
                .iter()
                .filter(|(s, outer, _)| (*s, *outer) == (name, &m.name));
            for (_, outer, inner) in nested {
                let inside = self.members(self.resolved(m.type_id)?)?;
                if let Some(i) = inside.iter().find(|i| i.name == *inner) {
                    fields.push(self.field(i, format!("{outer}.{inner}"), m.start_bits)?);
                }
            }
        }
        for f in &fields {
            let end = f.bits.map_or(u64::from(f.size_bytes), |(first, bits)| {
                u64::from(first + bits).div_ceil(8)
            });
            if u64::from(f.offset_bytes) + end > u64::from(size_bytes) {
                return Err(format!(
                    "field {} ends beyond its {size_bytes} bytes",
                    f.name
                ));
            }
        }
        sort_fields(&mut fields);
        Ok(Some(StructLayout {
            name: name.into(),
            size_bytes,
            align_bytes: None,
            fields,
            fields_complete: true,
            source: format!("BTF, {source}"),
        }))
    }

    fn field(&self, m: &Found, name: String, base_bits: u32) -> Result<FieldLayout, String> {
        let start = base_bits
            .checked_add(m.start_bits)
            .ok_or_else(|| format!("the offset of {name} is beyond 32 bits"))?;
        Ok(FieldLayout {
            offset_bytes: start / 8,
            size_bytes: self.size_bytes(m.type_id, MAX_DEPTH)?,
            bits: (m.bits > 0).then_some((start % 8, m.bits)),
            type_name: self.type_name(m.type_id, MAX_DEPTH)?,
            name,
        })
    }

    /// The type behind typedefs and qualifiers.
    fn resolved(&self, mut type_id: u32) -> Result<u32, String> {
        for _ in 0..MAX_DEPTH {
            type_id = match self.get(type_id)? {
                TypeVariant::Typedef(t) => *t.tid(),
                TypeVariant::Const(t) => *t.tid(),
                TypeVariant::Volatile(t) => *t.tid(),
                TypeVariant::Restrict(t) => *t.tid(),
                TypeVariant::TypeTag(t) => *t.tid(),
                _ => return Ok(type_id),
            };
        }
        Err(format!(
            "type {type_id} is nested more than {MAX_DEPTH} deep"
        ))
    }

    /// The members of struct or union `type_id`; none for another type.
    fn members(&self, type_id: u32) -> Result<Vec<Found>, String> {
        let mut found = Vec::new();
        let mut left = MAX_MEMBERS;
        self.collect(type_id, 0, MAX_DEPTH, &mut left, &mut found)?;
        Ok(found)
    }

    fn collect(
        &self,
        type_id: u32,
        base_bits: u32,
        depth: u32,
        left: &mut u32,
        found: &mut Vec<Found>,
    ) -> Result<(), String> {
        let members = match self.get(type_id)? {
            TypeVariant::Struct(s) => s.member_list(),
            TypeVariant::Union(u) => u.member_list(),
            _ => return Ok(()),
        };
        for m in members {
            *left = left
                .checked_sub(1)
                .ok_or_else(|| format!("has more than {MAX_MEMBERS} members"))?;
            let (start, bits) = match m.offset() {
                Offset::ByteOffset(bytes) => (bytes.checked_mul(8), 0),
                Offset::BitOffsetAndSize(start, bits) => (Some(start), bits),
            };
            let start_bits = start
                .and_then(|s| s.checked_add(base_bits))
                .ok_or("has a member whose offset is beyond 32 bits")?;
            match m.name() {
                Some(name) if !name.is_empty() => found.push(Found {
                    name,
                    type_id: m.tid(),
                    start_bits,
                    bits,
                }),
                _ => {
                    let depth = depth
                        .checked_sub(1)
                        .ok_or_else(|| format!("nests more than {MAX_DEPTH} deep"))?;
                    let inner = self.resolved(m.tid())?;
                    self.collect(inner, start_bits, depth, left, found)?;
                }
            }
        }
        Ok(())
    }

    fn size_bytes(&self, type_id: u32, depth: u32) -> Result<u32, String> {
        let depth = depth
            .checked_sub(1)
            .ok_or_else(|| format!("type {type_id} is nested more than {MAX_DEPTH} deep"))?;
        let resolved = self.resolved(type_id)?;
        let size = match self.get(resolved)? {
            TypeVariant::Ptr(_) => return Ok(POINTER_BYTES),
            TypeVariant::Array(a) => {
                return self
                    .size_bytes(*a.element_tid(), depth)?
                    .checked_mul(*a.element_count())
                    .ok_or_else(|| format!("array type {resolved} is larger than 4 GiB"));
            }
            TypeVariant::Int(t) => *t.size(),
            TypeVariant::Float(t) => *t.size(),
            TypeVariant::Enum(t) => *t.size(),
            TypeVariant::Enum64(t) => *t.size(),
            TypeVariant::Struct(t) => *t.size(),
            TypeVariant::Union(t) => *t.size(),
            _ => return Err(format!("type {resolved} has no size")),
        };
        u32::try_from(size).map_err(|e| e.to_string())
    }

    /// The type as C and pahole write it, without type tags such as `__rcu`.
    fn type_name(&self, type_id: u32, depth: u32) -> Result<String, String> {
        let depth = depth
            .checked_sub(1)
            .ok_or_else(|| format!("type {type_id} is nested more than {MAX_DEPTH} deep"))?;
        let named = |prefix: &str, name: &Option<String>| {
            format!("{prefix}{}", name.as_deref().unwrap_or("(anonymous)"))
        };
        Ok(match self.get(type_id)? {
            TypeVariant::Void => "void".into(),
            TypeVariant::Int(t) => named("", t.name()),
            TypeVariant::Float(t) => named("", t.name()),
            TypeVariant::Typedef(t) => named("", t.name()),
            TypeVariant::Enum(t) => named("enum ", t.name()),
            TypeVariant::Enum64(t) => named("enum ", t.name()),
            TypeVariant::Struct(t) => named("struct ", t.name()),
            TypeVariant::Union(t) => named("union ", t.name()),
            TypeVariant::Fwd(t) => named("struct ", t.name()),
            TypeVariant::TypeTag(t) => self.type_name(*t.tid(), depth)?,
            TypeVariant::Const(t) => self.qualified("const", *t.tid(), depth)?,
            TypeVariant::Volatile(t) => self.qualified("volatile", *t.tid(), depth)?,
            TypeVariant::Restrict(t) => self.qualified("restrict", *t.tid(), depth)?,
            TypeVariant::Ptr(t) => {
                if let TypeVariant::FuncProto(f) = self.get(*t.tid())? {
                    let result = self.type_name(*f.return_tid(), depth)?;
                    return Ok(format!("{result} (*)()"));
                }
                let to = self.type_name(*t.tid(), depth)?;
                let space = if to.ends_with('*') { "" } else { " " };
                format!("{to}{space}*")
            }
            TypeVariant::Array(_) => {
                let (mut element, mut counts) = (type_id, String::new());
                for _ in 0..MAX_DEPTH {
                    let TypeVariant::Array(a) = self.get(element)? else {
                        break;
                    };
                    counts += &match a.element_count() {
                        0 => "[]".into(),
                        n => format!("[{n}]"),
                    };
                    element = *a.element_tid();
                }
                self.type_name(element, depth)? + &counts
            }
            _ => return Err(format!("type {type_id} is not one that a member can have")),
        })
    }

    /// `const char`, but `char * const`: a qualifier stands behind the pointer that it qualifies.
    fn qualified(&self, qualifier: &str, type_id: u32, depth: u32) -> Result<String, String> {
        let inner = self.type_name(type_id, depth)?;
        Ok(if inner.ends_with('*') {
            format!("{inner} {qualifier}")
        } else {
            format!("{qualifier} {inner}")
        })
    }
}

//! Whose bytes an access touches: struct, object, field and offset, from a recording's label.
//!
//! | label | struct | object | field | offset |
//! |---|---|---|---|---|
//! | `C0[4].tasks+8@8` | `psi_group_cpu` | `C0[4]` | `tasks+8` | 8 |
//! | `G[sys].enabled@8` | `psi_group` | `G[sys]` | `enabled` | 8 |
//! | `cid.mm0.cpu1.cid@8` | `mm_cid` (the header says so) | `cid.mm0.cpu1` | `cid` | 8 |
//! | `node_data+16` | `node_data` | `node_data` | `+16` | 16 |
//! | `-` in a kernel stack | `(stack)` | | | |
//! | `-` or `user` at a user's address | `(user)` | | | |
//! | any other `-` | `(unnamed)` | | | |
//!
//! A kernel stack is the block of 16 KiB that the first unnamed store after a function's entry goes
//! to; where a stream marks no entries, stacks stay unnamed.

use std::collections::{BTreeMap, BTreeSet};

use super::{Access, Event, Stream};

/// Size of a kernel stack, and what it is aligned to, on arm64 and x86-64.
const STACK_SHIFT: u32 = 14;
/// User addresses lie below, on arm64 and x86-64.
const USER_END: u64 = 1 << 56;

/// Unnamed bytes of a kernel stack.
pub const STACK: &str = "(stack)";
/// Bytes of the program.
pub const USER: &str = "(user)";
/// Bytes that the recording could not name.
pub const UNNAMED: &str = "(unnamed)";

/// Whose bytes an access touches. Words are empty where unknown.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// C name of the struct, a static object's name, or one of the words in parentheses.
    pub structure: String,
    /// Which object of it.
    pub object: String,
    /// Field, with `+N` where the access begins within it.
    pub field: String,
    /// Offset in the object, in bytes.
    pub offset_bytes: u32,
}

impl Owner {
    /// The field without `+N`.
    #[must_use]
    pub fn root_field(&self) -> &str {
        self.field.split('+').next().unwrap_or_default()
    }

    /// `struct.field@offset`, or the struct alone where there is no field.
    #[must_use]
    pub fn path(&self) -> String {
        match (self.field.as_str(), self.offset_bytes) {
            ("", _) => self.structure.clone(),
            (field, _) if field.starts_with('+') => format!("{}{field}", self.structure),
            (field, offset) => format!("{}.{field}@{offset}", self.structure),
        }
    }
}

/// Structs by what objects of theirs are called, digits and brackets left out.
const STRUCTURES: &[(&str, &str)] = &[
    ("G", "psi_group"),
    ("C", "psi_group_cpu"),
    ("cg", "cgroup"),
    ("task", "task_struct"),
    ("idle", "task_struct"),
    ("gcfs", "cfs_rq"),
    ("gse", "sched_entity"),
    ("mm", "mm_struct"),
    ("cid", "mm_cid"),
    ("memcg", "mem_cgroup"),
    ("pernode", "mem_cgroup_per_node"),
    ("rstat_cpu", "cgroup_rstat_cpu"),
    ("rstat_base", "cgroup_rstat_base_cpu"),
    ("css_rstat", "css_rstat_cpu"),
    ("vmpcpu", "memcg_vmstats_percpu"),
    ("lrupcpu", "lruvec_stats_percpu"),
    ("vmstats", "memcg_vmstats"),
    ("lrustats", "lruvec_stats"),
    ("blkg", "blkcg_gq"),
    ("iostat", "blkg_iostat_set"),
];

/// C name of the struct of an object: by the header, by [`STRUCTURES`], or else the object's own
/// name without number.
fn structure_of(object: &str, named: &BTreeMap<&str, &str>) -> String {
    if let Some(structure) = named.get(object) {
        return (*structure).to_string();
    }
    let kind = object.split('[').next().unwrap_or(object);
    let kind = kind.split('.').next().unwrap_or(kind);
    let bare = kind.trim_end_matches(|c: char| c.is_ascii_digit());
    let known = STRUCTURES.iter().find(|(name, _)| *name == bare);
    known.map_or(bare, |(_, structure)| structure).to_string()
}

/// Names the owners of a stream's accesses.
#[derive(Clone, Debug)]
pub struct Labels<'a> {
    named: BTreeMap<&'a str, &'a str>,
    stacks: BTreeSet<u64>,
}

impl<'a> Labels<'a> {
    /// For the accesses of `stream`.
    #[must_use]
    pub fn of(stream: &'a Stream) -> Labels<'a> {
        let named = stream.objects.iter();
        let named = named.map(|o| (o.name.as_str(), o.structure.as_str()));
        let mut stacks = BTreeSet::new();
        let mut entered = BTreeMap::new();
        for event in &stream.events {
            match event {
                Event::Call { cpu, .. } => {
                    entered.insert(*cpu, true);
                }
                Event::Access(access) if access.write => {
                    let first = entered.insert(access.cpu, false) == Some(true);
                    if first && access.label.is_none() && access.vaddr >= USER_END {
                        stacks.insert(access.vaddr >> STACK_SHIFT);
                    }
                }
                Event::Access(_) => {}
            }
        }
        Labels {
            named: named.collect(),
            stacks,
        }
    }

    /// The owner of `access`.
    #[must_use]
    pub fn owner(&self, access: &Access) -> Owner {
        match access.label.as_deref() {
            Some(label) if label != "user" => self.parse(label),
            _ => {
                let structure = if access.vaddr < USER_END {
                    USER
                } else if self.stacks.contains(&(access.vaddr >> STACK_SHIFT)) {
                    STACK
                } else {
                    UNNAMED
                };
                Owner {
                    structure: structure.into(),
                    object: String::new(),
                    field: String::new(),
                    offset_bytes: 0,
                }
            }
        }
    }

    /// The owner that `label` names; a label of no known shape is the name of a static object.
    #[must_use]
    pub fn parse(&self, label: &str) -> Owner {
        let in_struct = label.rsplit_once('@').and_then(|(path, offset)| {
            let (object, field) = self.split(path)?;
            Some((object, field, offset.parse().ok()?))
        });
        if let Some((object, field, offset_bytes)) = in_struct {
            return Owner {
                structure: structure_of(object, &self.named),
                object: object.into(),
                field: field.into(),
                offset_bytes,
            };
        }
        let (name, plus) = label.rsplit_once('+').unwrap_or((label, ""));
        let offset = plus.parse().ok();
        let name = if offset.is_some() { name } else { label };
        Owner {
            structure: name.into(),
            object: name.into(),
            field: offset.map_or_else(String::new, |offset: u32| format!("+{offset}")),
            offset_bytes: offset.unwrap_or(0),
        }
    }

    /// Object and field.
    fn split<'l>(&self, path: &'l str) -> Option<(&'l str, &'l str)> {
        if let Some((object, field)) = path.split_once("].") {
            return Some((&path[..=object.len()], field));
        }
        // Objects of the header may have dots in their names.
        let ends = path.match_indices('.').map(|(at, _)| at);
        let named = ends.rev().find(|at| self.named.contains_key(&path[..*at]));
        let at = named.or_else(|| path.find('.'))?;
        Some((&path[..at], &path[at + 1..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_struct_object_field_and_offset() {
        let header = "# cid.mm0.cpu1 mm_cid 0xffff800000000000\n";
        let stream = Stream::parse(header).expect("a header");
        let labels = Labels::of(&stream);
        for (label, structure, object, field, offset) in [
            ("C0[4].tasks+8@8", "psi_group_cpu", "C0[4]", "tasks+8", 8),
            ("G[sys].enabled@8", "psi_group", "G[sys]", "enabled", 8),
            ("cg[0].self+192@192", "cgroup", "cg[0]", "self+192", 192),
            ("rq0.cfs.avg+64@256", "rq", "rq0", "cfs.avg+64", 256),
            ("cid.mm0.cpu1.cid@8", "mm_cid", "cid.mm0.cpu1", "cid", 8),
            (
                "css_rstat1[P.self].owner@8",
                "css_rstat_cpu",
                "css_rstat1[P.self]",
                "owner",
                8,
            ),
            (
                "vmpcpu1[c25].events[6]@448",
                "memcg_vmstats_percpu",
                "vmpcpu1[c25]",
                "events[6]",
                448,
            ),
            ("node_data+16", "node_data", "node_data", "+16", 16),
            (
                "lookup_state.3+8",
                "lookup_state.3",
                "lookup_state.3",
                "+8",
                8,
            ),
            ("odd", "odd", "odd", "", 0),
            ("@", "@", "@", "", 0),
            ("].@1", "]", "]", "", 1),
        ] {
            let owner = labels.parse(label);
            let found = (
                &*owner.structure,
                &*owner.object,
                &*owner.field,
                owner.offset_bytes,
            );
            assert_eq!(found, (structure, object, field, offset), "{label}");
        }
    }

    /// The first store after an entry shows the stack; what lies in its 16 KiB is stack.
    #[test]
    fn stacks_and_users_are_told_apart() {
        let text = "1 0 1 CALL f\n\
                    2 0 1 f+0 W 8 0xffff800080013ff0 0x1ff0 0x0 -\n\
                    3 0 1 f+4 R 8 0xffff800080010000 0x2000 0x0 -\n\
                    4 0 1 f+8 R 8 0xffff800080014000 0x3000 0x0 -\n\
                    5 0 0 user+0x4 R 8 0x400000 0x4000 0x0 -\n";
        let stream = Stream::parse(text).expect("a stream");
        let labels = Labels::of(&stream);
        let owners: Vec<String> = stream
            .accesses()
            .map(|a| labels.owner(a).structure)
            .collect();
        assert_eq!(owners, [STACK, STACK, UNNAMED, USER]);
    }
}

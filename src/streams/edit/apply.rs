//! What an edit does to the accesses of a stream.

use std::collections::{BTreeMap, BTreeSet};

use super::super::label::{Labels, Owner};
use super::super::steps::VISIT;
use super::super::{Access, Column, Event, Stream};
use super::{Change, Edit, EditError};

/// Moved objects lie from here on in physical memory: no recorded machine has as much.
const ELSEWHERE: u64 = 1 << 44;
/// Bytes that an added read has: a pointer.
const READ_BYTES: u32 = 8;
/// `stream` after `edits`, one after another, and what there is to say of them.
///
/// # Errors
/// An edit that matches nothing, or puts a field where another one lies.
pub fn apply(stream: &Stream, edits: &[Edit]) -> Result<(Stream, Vec<String>), EditError> {
    let mut edited = stream.clone();
    let mut levels = levels(stream);
    let mut notes = Vec::new();
    for edit in edits {
        match &edit.change {
            Change::Align { object, bytes } => {
                let aligned = |at: u64, _| at.checked_next_multiple_of(*bytes).unwrap_or(at);
                notes.extend(place(&mut edited, &mut levels, edit, object, aligned)?);
            }
            Change::Stride { object, bytes } => {
                let next = |at: u64, last: Option<u64>| {
                    last.map_or(at, |last| last.saturating_add(*bytes))
                };
                notes.extend(place(&mut edited, &mut levels, edit, object, next)?);
            }
            Change::Move {
                structure,
                field,
                offset,
            } => move_field(&mut edited, edit, structure, field, *offset)?,
            Change::Add {
                structure,
                field,
                offset,
            } => notes.extend(add(&mut edited, &levels, edit, structure, field, *offset)?),
        }
    }
    // Last: two edits may swap two fields.
    for edit in edits {
        if let Change::Move {
            structure, field, ..
        } = &edit.change
        {
            overlaps(&edited, edit, structure, field)?;
        }
    }
    Ok((edited, notes))
}

/// Up to three of `known`, nearest first, for the end of a sentence.
fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: BTreeSet<&str> = known.into_iter().filter(|k| !k.starts_with('(')).collect();
    let mut by_distance: Vec<(usize, &str)> = known
        .into_iter()
        .map(|k| (strsim::levenshtein(name, k), k))
        .collect();
    by_distance.sort_unstable();
    let names: Vec<&str> = by_distance.iter().take(3).map(|(_, k)| *k).collect();
    match names.is_empty() {
        true => "; the stream names nothing".into(),
        false => format!("; near: {}", names.join(", ")),
    }
}

/// The cgroup of a level.
struct Level {
    name: String,
    vaddr: u64,
    /// `None` if the stream touches no cgroup at all.
    paddr: Option<u64>,
}

const CGROUP: &str = "cgroup";

/// An object, as its accesses show it.
#[derive(Clone, Debug)]
struct Known {
    structure: String,
    vaddr: u64,
    /// Physical minus virtual address.
    difference: u64,
    /// From its begin to the end of the last byte touched.
    bytes: u64,
}

/// Where the cgroups of a stream of PSI lie, by level: by the header and, physically, by the pages
/// that are touched, or as far from their virtual addresses as those that are.
fn levels(stream: &Stream) -> Vec<Level> {
    if stream.column != Column::Psi {
        return Vec::new();
    }
    let objects = objects(stream, &owners(stream));
    let touched = objects.values().find(|o| o.structure == CGROUP);
    let pages = pages(stream);
    let level = |(level, vaddr): (usize, &u64)| {
        let page = pages.get(&(vaddr >> 12));
        Level {
            name: format!("cg[{level}]"),
            vaddr: *vaddr,
            paddr: page
                .map(|page| page << 12 | vaddr & 0xfff)
                .or(touched.map(|o| vaddr.wrapping_add(o.difference))),
        }
    };
    let cgroups = stream.placement.cgroups.iter().enumerate();
    cgroups.map(level).collect()
}

fn owners(stream: &Stream) -> Vec<Option<Owner>> {
    let labels = Labels::of(stream);
    let owner = |event: &Event| match event {
        Event::Access(access) if access.label.is_some() => {
            Some(labels.owner(access)).filter(|owner| !owner.field.is_empty())
        }
        _ => None,
    };
    stream.events.iter().map(owner).collect()
}

fn objects(stream: &Stream, owners: &[Option<Owner>]) -> BTreeMap<String, Known> {
    let mut objects: BTreeMap<String, Known> = BTreeMap::new();
    for (event, owner) in stream.events.iter().zip(owners) {
        if let (Event::Access(access), Some(owner)) = (event, owner) {
            let offset = u64::from(owner.offset_bytes);
            let known = objects.entry(owner.object.clone());
            let known = known.or_insert_with(|| Known {
                structure: owner.structure.clone(),
                vaddr: access.vaddr.wrapping_sub(offset),
                difference: access.paddr.wrapping_sub(access.vaddr),
                bytes: 0,
            });
            known.bytes = known.bytes.max(offset + u64::from(access.bytes));
        }
    }
    objects
}

fn elsewhere(paddr: u64) -> u64 {
    paddr % ELSEWHERE + ELSEWHERE
}

/// Put the objects that `wanted` names where `to` says: from an address and that of the object
/// before.
fn place(
    stream: &mut Stream,
    levels: &mut [Level],
    edit: &Edit,
    wanted: &str,
    to: impl Fn(u64, Option<u64>) -> u64,
) -> Result<Option<String>, EditError> {
    let owners = owners(stream);
    let mut objects = objects(stream, &owners);
    // Cgroups that no access touches are objects all the same: an edit may add reads of them.
    let like = objects.values().filter(|o| o.structure == CGROUP);
    let bytes = like.map(|o| o.bytes).max().unwrap_or(0);
    for level in levels.iter() {
        objects.entry(level.name.clone()).or_insert(Known {
            structure: CGROUP.into(),
            vaddr: level.vaddr,
            difference: 0,
            bytes,
        });
    }
    let mut chosen: Vec<(&String, &Known)> = objects
        .iter()
        .filter(|(name, known)| *name == wanted || known.structure == wanted)
        .collect();
    if chosen.is_empty() {
        let known = objects.iter();
        let known = known.flat_map(|(name, known)| [name.as_str(), &known.structure]);
        let near = near(wanted, known);
        return Err(edit.wrong(format!("the stream has no object or struct {wanted}{near}")));
    }
    chosen.sort_by_key(|(_, known)| known.vaddr);
    let mut moved: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut last, mut free) = (None, 0);
    for (name, known) in chosen {
        let mut at = to(known.vaddr, last);
        if at < free && !matches!(edit.change, Change::Stride { .. }) {
            // Rounded up onto the object before: behind it.
            at = to(free, last);
        } else if at < free {
            return Err(edit.wrong(format!(
                "objects would overlap; accepted: {} bytes or more, as far as they are touched",
                known.bytes
            )));
        }
        (last, free) = (Some(at), at.saturating_add(known.bytes));
        if at != known.vaddr {
            moved.insert(name, at.wrapping_sub(known.vaddr));
        }
    }
    let nothing = moved.is_empty();
    for (event, owner) in stream.events.iter_mut().zip(&owners) {
        if let (Event::Access(access), Some(owner)) = (event, owner)
            && let Some(by) = moved.get(owner.object.as_str())
        {
            access.vaddr = access.vaddr.wrapping_add(*by);
            access.paddr = elsewhere(access.paddr.wrapping_add(*by));
        }
    }
    for level in levels {
        if let Some(by) = moved.get(level.name.as_str()) {
            level.vaddr = level.vaddr.wrapping_add(*by);
            level.paddr = level.paddr.map(|at| elsewhere(at.wrapping_add(*by)));
        }
    }
    Ok(nothing.then(|| format!("{edit}: all of them lie so already, nothing moves")))
}

fn missing_structure(edit: &Edit, structure: &str, owners: &[Option<Owner>]) -> EditError {
    let known = owners.iter().flatten().map(|o| o.structure.as_str());
    let near = near(structure, known);
    edit.wrong(format!("the stream has no struct {structure}{near}"))
}

fn move_field(
    stream: &mut Stream,
    edit: &Edit,
    structure: &str,
    field: &str,
    offset: u32,
) -> Result<(), EditError> {
    let owners = owners(stream);
    let pages = pages(stream);
    let mut moved = false;
    for (event, owner) in stream.events.iter_mut().zip(&owners) {
        let (Event::Access(access), Some(owner)) = (event, owner) else {
            continue;
        };
        if owner.structure != structure || (owner.root_field() != field && owner.field != field) {
            continue;
        }
        let within = match owner.field.strip_prefix(field).unwrap_or_default() {
            "" => 0,
            plus => plus.trim_start_matches('+').parse().unwrap_or(0),
        };
        let to = offset.saturating_add(within);
        let by = u64::from(to).wrapping_sub(u64::from(owner.offset_bytes));
        access.vaddr = access.vaddr.wrapping_add(by);
        access.paddr = match pages.get(&(access.vaddr >> 12)) {
            // An object that was moved lies elsewhere than its page.
            Some(page) if access.paddr < ELSEWHERE => page << 12 | access.vaddr & 0xfff,
            _ => access.paddr.wrapping_add(by),
        };
        access.label = Some(format!("{}.{}@{to}", owner.object, owner.field));
        moved = true;
    }
    if moved {
        return Ok(());
    }
    let of = owners.iter().flatten().filter(|o| o.structure == structure);
    let fields: Vec<&str> = of.map(Owner::root_field).collect();
    if fields.is_empty() {
        return Err(missing_structure(edit, structure, &owners));
    }
    let near = near(field, fields);
    Err(edit.wrong(format!(
        "no access of the stream is to {structure}.{field}{near}"
    )))
}

/// Physical page by virtual page.
fn pages(stream: &Stream) -> BTreeMap<u64, u64> {
    let page = |access: &Access| (access.vaddr >> 12, access.paddr >> 12);
    stream.accesses().map(page).collect()
}

/// Refuse a moved field that lies on another one.
fn overlaps(stream: &Stream, edit: &Edit, structure: &str, field: &str) -> Result<(), EditError> {
    let owners = owners(stream);
    let mut moved = BTreeSet::new();
    let mut others = BTreeMap::new();
    for (event, owner) in stream.events.iter().zip(&owners) {
        if let (Event::Access(access), Some(owner)) = (event, owner)
            && owner.structure == structure
        {
            for byte in owner.offset_bytes..owner.offset_bytes.saturating_add(access.bytes) {
                if owner.root_field() == field || owner.field == field {
                    moved.insert(byte);
                } else {
                    others.insert(byte, owner);
                }
            }
        }
    }
    match moved.iter().find_map(|byte| others.get(byte)) {
        None => Ok(()),
        Some(other) => Err(edit.wrong(format!(
            "the field would lie on {}; accepted: an offset where no other field that is accessed lies",
            other.path()
        ))),
    }
}

fn add(
    stream: &mut Stream,
    levels: &[Level],
    edit: &Edit,
    structure: &str,
    field: &str,
    offset: u32,
) -> Result<Option<String>, EditError> {
    let owners = owners(stream);
    let by_level = structure == CGROUP && !levels.is_empty();
    if !by_level && owners.iter().flatten().all(|o| o.structure != structure) {
        return Err(missing_structure(edit, structure, &owners));
    }
    let mut events = Vec::with_capacity(stream.events.len());
    // By CPU: the object of the struct that it used last.
    let mut used: BTreeMap<u32, String> = BTreeMap::new();
    let (mut added, mut without) = (0_u64, 0_u64);
    for (event, owner) in std::mem::take(&mut stream.events).into_iter().zip(&owners) {
        if let Event::Call { cpu, name, .. } = &event
            && name != VISIT
        {
            // A function begins: whatever it visits, it visits anew.
            used.remove(cpu);
        }
        let (Event::Access(access), Some(owner)) = (&event, owner) else {
            events.push(event);
            continue;
        };
        // The object, and its physical and virtual address.
        let visited = if by_level {
            let steps_on = access.psi && owner.structure == "psi_group" && owner.field == "parent";
            let level = owner
                .object
                .strip_prefix("G[")
                .and_then(|level| level.strip_suffix(']'));
            let level: Option<usize> = level.and_then(|level| level.parse().ok());
            let cgroup = level
                .and_then(|level| levels.get(level))
                .filter(|_| steps_on);
            without += u64::from(steps_on && cgroup.is_none());
            match cgroup.map(|cgroup| (&cgroup.name, cgroup.paddr, cgroup.vaddr)) {
                None => None,
                Some((name, Some(paddr), vaddr)) => Some((name.clone(), paddr, vaddr)),
                Some((_, None, _)) => {
                    return Err(edit.wrong(
                        "no access shows where cgroups lie in physical memory; accepted: a stream that \
                         touches one"
                            .into(),
                    ));
                }
            }
        } else if owner.structure == structure && used.get(&access.cpu) != Some(&owner.object) {
            used.insert(access.cpu, owner.object.clone());
            let own = u64::from(owner.offset_bytes);
            let base = |at: u64| at.wrapping_sub(own);
            Some((owner.object.clone(), base(access.paddr), base(access.vaddr)))
        } else {
            None
        };
        let access = access.clone();
        events.push(event);
        let Some((object, paddr, vaddr)) = visited else {
            continue;
        };
        let at = |base: u64| base.wrapping_add(u64::from(offset));
        added += 1;
        events.push(Event::Access(Access {
            pc: format!("{}+added", access.function()),
            write: false,
            bytes: READ_BYTES,
            vaddr: at(vaddr),
            paddr: at(paddr),
            value: None,
            label: Some(format!("{object}.{field}@{offset}")),
            ..access
        }));
    }
    stream.events = events;
    if added == 0 {
        return Err(edit.wrong(format!(
            "no visit of a {structure} is in the stream; accepted: a struct that it visits"
        )));
    }
    let note = format!(
        "{edit}: {added} reads added; none at {without} visits of psi_system, whose cgroup is not recorded"
    );
    Ok((without > 0).then_some(note))
}

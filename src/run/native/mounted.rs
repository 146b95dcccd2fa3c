//! A case on host memory, and whose memory it has.
//!
//! Unsafe is confined to the promise that a case's addresses are those of its mapping.
#![allow(unsafe_code)]

use std::hint::black_box;

use kernels::arena::Random;
use kernels::memory::Addr;
use kernels::native::Native;
use kernels::psi::Globals;
use kernels::recorder::Recorder;

use super::super::machines::Host;
use super::super::rows::keys;
use super::{Case, Position, RunError};
use crate::experiment::{Experiment, Start};
use crate::native::mapping::{self, Mapped, Pages};
use crate::record::Keys;

/// A case on host memory.
pub(super) struct Mounted {
    pub case: Case,
    pub keys: Keys,
    pub pages: Pages,
    /// Where its arena lies; `None` only while memory is exchanged.
    pub mapped: Option<Mapped>,
    pub globals: Globals,
    pub at: Position,
    /// Operations per sample; 0: not known yet.
    pub count: u64,
    /// Of the order of cold regions.
    pub random: Random,
    /// Lines that an operation touches, for a flushed start.
    pub lines: Vec<Addr>,
    /// Pages that were had where others were asked for; else empty.
    pub fallback: String,
}

impl Mounted {
    pub fn mapped(&self) -> &Mapped {
        self.mapped.as_ref().expect("mapped when it is measured")
    }
}

/// Map the memory of `case`; what Linux refused goes to `refused`, each sentence once.
pub(super) fn mount(
    experiment: &Experiment,
    mut case: Case,
    host: &Host,
    refused: &mut Vec<String>,
) -> Result<Mounted, RunError> {
    let pages = case
        .point
        .pages
        .to_string()
        .parse()
        .expect("both sides name the same pages");
    let lines = match case.point.start {
        Start::Flushed => lines_of(&mut case),
        _ => Vec::new(),
    };
    let mapped = map(&case, pages)?;
    for note in mapped.regions.iter().filter_map(|r| r.note.as_ref()) {
        let note = format!("native: {note}");
        if !refused.contains(&note) {
            refused.push(note);
        }
    }
    let globals = case.tree.globals.moved(|a| mapped.host(a));
    let cpu = match case.point.cpus() {
        2 => "all".to_string(),
        _ => host.cpu.to_string(),
    };
    let keys = keys(experiment, &case, &host.name, &cpu);
    let fallback = mapped
        .regions
        .iter()
        .find(|r| r.got != r.asked)
        .map_or(String::new(), |r| {
            format!("pages {} instead of {}", r.got, r.asked)
        });
    Ok(Mounted {
        case,
        keys,
        pages,
        mapped: Some(mapped),
        globals,
        at: Position::default(),
        count: 0,
        random: Random(experiment.seed),
        lines,
        fallback,
    })
}

pub(super) fn map(case: &Case, pages: Pages) -> Result<Mapped, RunError> {
    mapping::map(&case.tree.arena, pages)
        .map_err(|e| RunError::Nothing(format!("{e}; a smaller depth would need less")))
}

/// Before a pass: cases that are compared get each other's memory, as the random order of the pass has
/// it, with their own images, and samples of as many operations.
///
/// What pages a mapping got is chance, and some are slower than others. With one mapping for all repeats
/// of a variant two equal variants differ, and no repetition shows that it is chance. The same holds for
/// a number of operations that was found too low in a bad moment: what a sample costs but once then weighs
/// more.
pub(super) fn even_out(mounted: &mut [Mounted], order: &[usize]) -> Result<(), RunError> {
    for i in 0..mounted.len() {
        let start = &mounted[i].case.point.start;
        let alike = mounted.iter().filter(|m| m.case.point.start == *start);
        let most = alike.map(|m| m.count).max().unwrap_or(0);
        mounted[i].count = most.next_multiple_of(mounted[i].case.period());
    }
    let mut free: Vec<Mapped> = order
        .iter()
        .filter_map(|i| mounted[*i].mapped.take())
        .collect();
    for m in mounted {
        let fitting = free
            .iter()
            .position(|memory| memory.fits(&m.case.tree.arena, m.pages));
        let memory = free.swap_remove(fitting.expect("its own fits at least"));
        let mapped = memory.refilled(&m.case.tree.arena);
        m.globals = m.case.tree.globals.moved(|a| mapped.host(a));
        m.mapped = Some(mapped);
        m.at = Position::default();
    }
    Ok(())
}

/// The lines of one period of operations, on a copy of the arena.
pub(super) fn lines_of(case: &mut Case) -> Vec<Addr> {
    let mut arena = case.tree.arena.clone();
    let globals = case.tree.globals.clone();
    let mut mem = Recorder::new(&mut arena);
    let mut at = Position::default();
    case.operate(&mut mem, &globals, case.period(), &mut at);
    let mut lines: Vec<u64> = mem.accesses.iter().map(|a| a.addr.0 / 64).collect();
    lines.sort_unstable();
    lines.dedup();
    lines.into_iter().map(|l| Addr(l * 64)).collect()
}

pub(super) fn native() -> Native {
    // SAFETY: every address that a case's kernel forms comes from `Mounted::globals` or from the
    // relocated pointers in its mapping, which `Mounted` keeps alive while it runs and nobody else uses.
    unsafe { Native::new() }
}

pub(super) fn operate(m: &mut Mounted, count: u64) -> u64 {
    let done = m
        .case
        .operate_native(&mut native(), &m.globals, black_box(0), count, &mut m.at);
    black_box(done.sum);
    done.visits
}

//! What Linux and its tasks touch between two calls of PSI: other data, as it really is.
//!
//! A recorded round trip is cut at its calls of `psi_task_change` and `psi_task_switch` into *gaps*:
//! the accesses outside PSI between one call and the next. Recordings are cyclic, so what follows the
//! last call and what comes before the first are one gap. Of several CPUs, the first is taken.
//!
//! Not modelled: that some of these lines are also the kernel's own (the leaf cgroup, the tasks); as
//! background they are other data.

use std::path::{Path, PathBuf};

use super::{Stream, StreamError};
use crate::model::Model;
use crate::model::hierarchy::Kind;

/// Addresses of the background begin here: no arena does.
const BASE: u64 = 1 << 45;

/// One access of the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Nominal address: the physical one, at a distance from what arenas hold.
    pub addr: u64,
    /// Width.
    pub bytes: u64,
    /// Whether it writes.
    pub write: bool,
}

/// The gaps of a recorded round trip: at least one, none of them empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Background {
    /// In recorded order.
    pub gaps: Vec<Vec<Touched>>,
}

impl Background {
    /// The gaps in `file`.
    ///
    /// # Errors
    /// If it cannot be read, or has no access outside the recorded path.
    pub fn read(file: &Path) -> Result<Background, StreamError> {
        let stream = Stream::read(file)?;
        Background::of(&stream).ok_or_else(|| StreamError::Line {
            file: PathBuf::from(file),
            line: stream.lines.max(1),
            what: "the file ends, and no access lies outside the recorded path; accepted: a whole round trip"
                .into(),
        })
    }

    /// The gaps of `stream`; `None` if nothing lies outside its path.
    #[must_use]
    pub fn of(stream: &Stream) -> Option<Background> {
        let cpu = *stream.cpus().first()?;
        let mut gaps: Vec<Vec<Touched>> = vec![Vec::new()];
        let mut begins_outside = None;
        for access in stream.accesses().filter(|a| a.cpu == cpu) {
            begins_outside.get_or_insert(access.path == 0);
            if access.path > 0 {
                if gaps.last().is_some_and(|gap| !gap.is_empty()) {
                    gaps.push(Vec::new());
                }
                continue;
            }
            let gap = gaps.last_mut().expect("there is always one");
            gap.push(Touched {
                addr: BASE + access.paddr % BASE,
                bytes: u64::from(access.bytes),
                write: access.write,
            });
        }
        if gaps.last().is_some_and(Vec::is_empty) {
            gaps.pop();
        } else if gaps.len() > 1 && begins_outside == Some(true) {
            // What comes after the last call goes on with what comes before the first.
            let mut last = gaps.pop().expect("more than one");
            last.append(&mut gaps[0]);
            gaps[0] = last;
        }
        (!gaps.is_empty()).then_some(Background { gaps })
    }

    /// Show gap number `number` (modulo their count) to the caches and TLBs of the core in use; `None`
    /// is all of them.
    pub fn present(&self, model: &mut Model, number: Option<u64>) {
        let count = self.gaps.len() as u64;
        let chosen = match number {
            Some(number) => {
                let at = (number % count) as usize;
                &self.gaps[at..=at]
            }
            None => &self.gaps[..],
        };
        for touched in chosen.iter().flatten() {
            let kind = if touched.write {
                Kind::Store
            } else {
                Kind::Load
            };
            model.present(touched.addr, touched.bytes, kind);
        }
    }
}

//! The events that a host's counters would be asked for, as `kwalk machine` shows them.

use serde::Serialize;

use crate::counters::choice::Choice;
use crate::counters::events::{Candidate, Code};
use crate::counters::tables::{Event, NOT_VERIFIED};
use crate::machine::sysfs::list_words;
use crate::wrap::wrap;

/// The events of one CPU.
#[derive(Serialize)]
pub(super) struct Events {
    /// Whose they are.
    pub of: String,
    /// The PMU, or why there is none.
    pub pmu: String,
    /// Of one thread.
    pub general_counters: u32,
    /// By metric.
    pub events: Vec<Row>,
    /// The command of perf that counts the same.
    pub perf: String,
    /// That nobody tried them yet.
    pub status: &'static str,
}

/// One event, or the reason why there is none.
#[derive(Serialize)]
pub(super) struct Row {
    pub metric: String,
    /// As the vendor or Linux calls it.
    pub event: Option<String>,
    /// `event=0xd1,umask=0x10`.
    pub fields: String,
    /// `type 4 config 0x10d1`; empty where no PMU tells its format.
    pub encoding: String,
    /// What is counted, or why nothing is.
    pub words: String,
    /// Empty where Linux gives the event.
    pub source: String,
}

impl Events {
    pub fn of(choice: &Choice) -> Events {
        let table = choice.table.as_ref();
        let row = |chosen: &crate::counters::choice::Chosen| {
            let event = table.and_then(|t| t.event(chosen.metric).ok());
            match &chosen.candidate {
                Ok(candidate) => counted(chosen.metric, candidate, event),
                Err(why) => {
                    let mut absent = table.into_iter().flat_map(|t| &t.absent);
                    let absent = absent.find(|a| a.metric == chosen.metric);
                    Row {
                        metric: chosen.metric.to_owned(),
                        event: None,
                        fields: String::new(),
                        encoding: String::new(),
                        words: absent.map_or_else(|| why.clone(), |a| a.reason.clone()),
                        source: absent.map_or_else(String::new, |a| a.source.clone()),
                    }
                }
            }
        };
        let mut events: Vec<Row> = choice.metrics.iter().map(row).collect();
        events.extend(choice.of_the_l3().into_iter().map(|(event, encoding)| Row {
            metric: event.metric.clone(),
            event: Some(event.name.clone()),
            fields: fields(&event.fields),
            encoding: encoding.map_or_else(|why| why, |e| format!("amd_l3, {e}")),
            words: format!("{}; runs do not open it", event.definition),
            source: sourced(event),
        }));
        Events {
            of: match table {
                Some(table) => table.title.clone(),
                None => "a processor in no table: what Linux names".to_owned(),
            },
            pmu: match &choice.pmu {
                Ok(pmu) => {
                    let cpus = pmu.cpus.as_deref().map(list_words);
                    let cpus = cpus.map_or_else(String::new, |cpus| format!(" for CPUs {cpus}"));
                    format!("PMU {}{cpus}", pmu.name)
                }
                Err(why) => format!("no PMU: {why}"),
            },
            general_counters: choice.general_counters,
            events,
            perf: choice.perf_stat(),
            status: NOT_VERIFIED,
        }
    }

    /// As a section of at most `columns`.
    pub fn words(&self, columns: usize) -> String {
        let title = format!(
            "events of {}, {}; {}, {} general counters",
            self.of, self.status, self.pmu, self.general_counters
        );
        let mut text = format!("\n{}", wrap(&title, columns, "", "  "));
        let indent = " ".repeat(21);
        for row in &self.events {
            let name = row.event.as_deref().unwrap_or("none");
            let code = match (row.fields.is_empty(), row.encoding.is_empty()) {
                (true, true) => String::new(),
                (false, false) => format!(" {} ({})", row.fields, row.encoding),
                _ => format!(" {}{}", row.fields, row.encoding),
            };
            let words = format!("{name}{code}: {}", row.words);
            text += &wrap(&words, columns, &format!("{:<21}", row.metric), &indent);
        }
        for (metrics, source) in self.sources() {
            let words = format!("{}: {source}", metrics.join(", "));
            text += &wrap(&words, columns, "source   ", "         ");
        }
        // Whole, so that it can be copied.
        text + &format!("perf     {}\n", self.perf)
    }

    /// Each source once, with its metrics.
    fn sources(&self) -> Vec<(Vec<&str>, &str)> {
        let mut all: Vec<(Vec<&str>, &str)> = Vec::new();
        for row in self.events.iter().filter(|row| !row.source.is_empty()) {
            match all.iter_mut().find(|(_, source)| *source == row.source) {
                Some((metrics, _)) => metrics.push(&row.metric),
                None => all.push((vec![&row.metric], &row.source)),
            }
        }
        all
    }
}

fn counted(metric: &str, candidate: &Candidate, event: Option<&Event>) -> Row {
    Row {
        metric: metric.to_owned(),
        event: Some(candidate.name.clone()),
        fields: fields(&candidate.fields),
        encoding: match candidate.code {
            Code::Raw(encoding) => encoding.to_string(),
            Code::Generic(..) | Code::Cache(..) => "by Linux's number".to_owned(),
            Code::Unknown => String::new(),
        },
        words: event
            .map_or("as Linux defines it", |e| &e.definition)
            .to_owned(),
        source: event.map_or_else(String::new, sourced),
    }
}

fn sourced(event: &Event) -> String {
    format!("{} ({})", event.source, event.confidence.word())
}

fn fields(fields: &std::collections::BTreeMap<String, u64>) -> String {
    let fields: Vec<String> = fields.iter().map(|(k, v)| format!("{k}={v:#x}")).collect();
    fields.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::sysfs::Tree;
    use std::path::Path;

    fn words(tree: &str, cpu: u32) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data/sysfs")
            .join(tree);
        let text = Events::of(&Choice::read(&Tree::new(&root), cpu).0).words(96);
        // perf's command alone stays whole.
        for line in text.lines().filter(|line| !line.starts_with("perf ")) {
            assert!(
                line.chars().count() <= 96 || !line.trim().contains(' '),
                "{line}"
            );
        }
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Metric, vendor's name, fields, encoding, definition and source, and that nobody tried it. Zen 3:
    /// event 0x64, umask 0x08 are config 0x864.
    #[test]
    fn each_event_is_shown_with_its_source() {
        let milan = words("milan", 0);
        for expected in [
            "events of AMD Zen 3, not yet verified on hardware; PMU cpu, 6 general counters",
            "l2_misses l2_cache_req_stat.ls_rd_blk_c event=0x64,umask=0x8 (type 4 config 0x864): ",
            "hitm none: no event tells modified lines apart",
            "(amd_l3, type 11 config 0x300c00000000106): all that this L3 is asked for",
            "amdzen3/cache.json (verified)",
            "perf perf stat -e '{cpu/event=0x76,name=ls_not_halted_cyc/u,",
        ] {
            assert!(milan.contains(expected), "{expected:?} is not in {milan}");
        }
        let atom = words("hybrid", 3);
        assert!(
            atom.contains("PMU cpu_atom for CPUs 2-3, 6 general counters"),
            "{atom}"
        );
        assert!(atom.contains("(type 10 config 0x20d1)"), "{atom}");
        let apple = words("apple-m1", 1);
        assert!(
            apple.contains("a processor in no table: what Linux names"),
            "{apple}"
        );
        assert!(
            apple.contains("cycles cycles event=0x2 (type 11 config 0x2): as Linux"),
            "{apple}"
        );
        let guest = words("intel-260m-guest", 0);
        assert!(guest.contains("no PMU: /sys/bus/event_source/devices has no PMU of a core"));
        assert!(guest.contains("hitm MEM_LOAD_L3_HIT_RETIRED.XSNP_FWD event=0xd2,umask=0x4: "));
    }
}

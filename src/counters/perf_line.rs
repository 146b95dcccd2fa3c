//! The command of perf that counts the same events, for who wants to check a count.

use super::events::Candidate;

/// `perf stat` with each of `groups` as a group of user-space events of the PMU `pmu`, for a program
/// pinned to `cpu`. Events that Linux names keep that name, the others have their fields.
#[must_use]
pub fn perf_stat(pmu: &str, cpu: u32, groups: &[Vec<&Candidate>]) -> String {
    let event = |e: &&Candidate| match e.fields.is_empty() {
        true => format!("{}:u", e.name),
        false => {
            let fields: Vec<String> = e
                .fields
                .iter()
                .map(|(name, value)| format!("{name}={value:#x}"))
                .collect();
            format!("{pmu}/{},name={}/u", fields.join(","), e.name)
        }
    };
    let mut line = "perf stat".to_owned();
    for group in groups {
        let events: Vec<String> = group.iter().map(event).collect();
        line += &match events.as_slice() {
            [one] => format!(" -e '{one}'"),
            several => format!(" -e '{{{}}}'", several.join(",")),
        };
    }
    line + &format!(" -- taskset -c {cpu} COMMAND")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str, fields: &[(&str, u64)]) -> Candidate {
        Candidate {
            name: name.to_owned(),
            fields: fields.iter().map(|&(n, v)| (n.to_owned(), v)).collect(),
            ..Candidate::default()
        }
    }

    /// As perf-list(1) spells raw events, groups and the modifier for user space.
    #[test]
    fn a_line_that_perf_takes() {
        let cycles = candidate("cpu-cycles", &[]);
        let l2 = candidate(
            "MEM_LOAD_RETIRED.L2_MISS",
            &[("event", 0xd1), ("umask", 0x10)],
        );
        let stall = candidate("STALL", &[("cmask", 5), ("event", 0xa6), ("umask", 0x21)]);
        let line = perf_stat("cpu_core", 3, &[vec![&cycles, &l2], vec![&stall]]);
        assert_eq!(
            line,
            "perf stat -e '{cpu-cycles:u,cpu_core/event=0xd1,umask=0x10,name=MEM_LOAD_RETIRED.L2_MISS/u}' \
             -e 'cpu_core/cmask=0x5,event=0xa6,umask=0x21,name=STALL/u' -- taskset -c 3 COMMAND"
        );
    }
}

//! Sentences about a run, folded: what was refused for one reason is said once.

/// What the sentence with the command of perf that counts the same begins with.
pub const PERF: &str = "the same counts with perf: ";

/// Names that share a reason, in the order of their first, each with its reason.
///
/// A reason that begins with the name of an event (`cpu-cycles: no hardware PMU`) is the same as
/// that of another event.
#[must_use]
pub fn by_reason(
    refused: impl IntoIterator<Item = (String, String)>,
) -> Vec<(Vec<String>, String)> {
    let mut folded: Vec<(Vec<String>, String)> = Vec::new();
    for (name, reason) in refused {
        let reason = without_event(&reason);
        match folded.iter_mut().find(|(_, known)| known == reason) {
            Some((names, _)) if names.contains(&name) => {}
            Some((names, _)) => names.push(name),
            None => folded.push((vec![name], reason.to_string())),
        }
    }
    folded
}

/// `notes` in which all `METRIC: unavailable: EVENT: REASON` of one reason are one sentence, in
/// the place of the first.
#[must_use]
pub fn folded(notes: &[String]) -> Vec<String> {
    let refused = by_reason(notes.iter().filter_map(|n| {
        let (name, reason) = refusal(n)?;
        Some((name.to_string(), reason.to_string()))
    }));
    let mut out: Vec<String> = Vec::new();
    for note in notes {
        let sentence = match refusal(note) {
            None => note.clone(),
            Some((_, reason)) => {
                let reason = without_event(reason);
                let (names, _) = refused
                    .iter()
                    .find(|(_, known)| known == reason)
                    .expect("every refusal was folded above");
                format!("{}: unavailable: {reason}", names.join(", "))
            }
        };
        if !out.contains(&sentence) {
            out.push(sentence);
        }
    }
    out
}

fn refusal(note: &str) -> Option<(&str, &str)> {
    note.split_once(": unavailable: ")
}

/// A reason without the event that it was said of.
#[must_use]
pub fn without_event(reason: &str) -> &str {
    match reason.split_once(": ") {
        Some((event, rest)) if !event.contains(' ') => rest,
        _ => reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three counters, two reasons, one other note: three sentences in the old order. The reasons
    /// differ in more than the event, or they would be one.
    #[test]
    fn one_sentence_for_each_reason() {
        let notes = [
            "cycles: unavailable: cpu-cycles: no PMU (error 2): times work",
            "host: L3 as told: it may be shared",
            "l1d_misses: unavailable: L1-dcache-load-misses: no PMU (error 2): times work",
            "l3_misses: unavailable: LLC-load-misses: not on this CPU",
        ]
        .map(String::from);
        assert_eq!(
            folded(&notes),
            [
                "cycles, l1d_misses: unavailable: no PMU (error 2): times work",
                "host: L3 as told: it may be shared",
                "l3_misses: unavailable: not on this CPU",
            ]
        );
        assert_eq!(folded(&[]), Vec::<String>::new());
    }

    /// A sentence with a colon is no event: it stays whole.
    #[test]
    fn only_an_event_is_taken_off() {
        assert_eq!(without_event("cpu-cycles: refused"), "refused");
        assert_eq!(
            without_event("on this host: refused"),
            "on this host: refused"
        );
    }
}

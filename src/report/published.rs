//! Published round trips, as an experiment's `[[published]]` entries give them.

/// Nanoseconds per operation.
#[must_use]
pub fn ns_per_op(ops_per_s: f64) -> f64 {
    1e9 / ops_per_s
}

/// One line of published numbers, in ns per operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Who published it.
    pub source: String,
    /// Machine as the source or the catalogue calls it.
    pub machine: String,
    /// What else is known; may be empty.
    pub note: String,
    /// Levels; 0 is the root cgroup. None: PSI switched off.
    pub depth: Option<f64>,
    /// Variant measured before the change.
    pub before_variant: String,
    /// Variant measured after it.
    pub after_variant: String,
    /// Time per operation before the change.
    pub before_ns: f64,
    /// Time per operation after it.
    pub after_ns: f64,
}

/// The `[[published]]` entries of an experiment that give a rate or time of a round trip before
/// and after a change.
#[must_use]
pub fn published(experiment: &toml::Table) -> Vec<Published> {
    let entries = experiment.get("published").and_then(|v| v.as_array());
    entries
        .into_iter()
        .flatten()
        .filter_map(|v| entry(v.as_table()?))
        .collect()
}

fn entry(table: &toml::Table) -> Option<Published> {
    let text = |key: &str| {
        let value = table.get(key).and_then(|v| v.as_str());
        value.unwrap_or_default().to_string()
    };
    let metric = text("metric");
    let time = |key: &str| {
        let value = number(table.get(key)?)?;
        match metric.as_str() {
            "ops_per_s" => Some(ns_per_op(value)),
            "time_ns_per_op" => Some(value),
            _ => None,
        }
        .filter(|v| v.is_finite() && *v > 0.0)
    };
    let variants: Vec<&str> = table
        .get("variants")
        .and_then(|v| v.as_array())
        .map(|a| a.iter().filter_map(|v| v.as_str()).collect())
        .unwrap_or_default();
    let off = table.get("psi_off").and_then(toml::Value::as_bool) == Some(true);
    let depth = table.get("where").and_then(|w| number(w.get("depth")?));
    if depth.is_none() && !off {
        return None;
    }
    Some(Published {
        source: text("source"),
        machine: text("machine"),
        note: text("note"),
        depth: depth.filter(|_| !off),
        before_variant: variants.first().unwrap_or(&"").to_string(),
        after_variant: variants.get(1).unwrap_or(&"").to_string(),
        before_ns: time("before")?,
        after_ns: time("after")?,
    })
}

/// A number, given as one, as text, or as a list of one.
fn number(value: &toml::Value) -> Option<f64> {
    match value {
        toml::Value::Integer(i) => Some(*i as f64),
        toml::Value::Float(f) => Some(*f),
        toml::Value::String(s) => s.parse().ok(),
        toml::Value::Array(items) => match items.as_slice() {
            [only] => number(only),
            _ => None,
        },
        _ => None,
    }
}

/// Published entries that belong together: one source, one machine, one pair of variants.
#[must_use]
pub fn series(all: &[Published]) -> Vec<Vec<&Published>> {
    let mut out: Vec<Vec<&Published>> = Vec::new();
    for entry in all {
        let same = out.iter_mut().find(|s| {
            s[0].source == entry.source
                && s[0].machine == entry.machine
                && (s[0].after_variant == entry.after_variant
                    || entry.depth.is_none()
                    || s[0].depth.is_none())
        });
        match same {
            Some(series) => series.push(entry),
            None => out.push(vec![entry]),
        }
    }
    out
}

/// The entry of `series` at `depth`.
#[must_use]
pub fn at<'a>(series: &[&'a Published], depth: f64) -> Option<&'a Published> {
    series.iter().copied().find(|p| p.depth == Some(depth))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries without a depth, with another metric, or that are no numbers are left out.
    #[test]
    fn entries_of_an_experiment() {
        let table: toml::Table = r#"
            [[published]]
            source = "a"
            machine = "i7-9700"
            metric = "ops_per_s"
            unit = "1/s"
            where = { depth = 5, layout = "x" }
            variants = ["parent", "cgroup"]
            before = 1e6
            after = 500000
            [[published]]
            source = "a"
            machine = "i7-9700"
            metric = "seconds"
            where = { depth = [5] }
            before = 1.0
            after = 2.0
            [[published]]
            source = "a"
            machine = "i7-9700"
            metric = "ops_per_s"
            psi_off = true
            before = 1.0
            after = 2.0
        "#
        .parse()
        .unwrap();
        let all = published(&table);
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].depth, Some(5.0));
        assert_eq!((all[0].before_ns, all[0].after_ns), (1000.0, 2000.0));
        assert_eq!(all[1].depth, None);
    }
}

//! Rows of the results: the columns of every CSV file, in their order.

mod folder;
mod host;
pub mod notes;
mod provenance;
mod recorder;

use serde::{Deserialize, Serialize};

pub use folder::{FolderError, Results, default_folder, utc};
pub use host::host_state;
pub use provenance::{Provenance, command_line, revision};
pub use recorder::{Finished, Recorder, RecorderError};

/// Version of the columns.
pub const SCHEMA: u32 = 1;

/// What every row begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Keys {
    /// Experiment name.
    pub experiment: String,
    /// Catalogue name or `host:<model name>`.
    pub machine: String,
    /// `native`, `model` or `live`.
    pub backend: String,
    /// Kernel of the experiment.
    pub kernel: String,
    /// Variant of the kernel.
    pub variant: String,
    /// Layout name.
    pub layout: String,
    /// `slab`, `packed`, `coloured` or `stream:FILE`.
    pub placement: String,
    /// `4k`, `thp` or `hugetlb-2m`.
    pub pages: String,
    /// `warm`, `polluted:KiB` or `flushed`.
    pub start: String,
    /// All axes, sorted, `key=value` joined by `;`.
    pub point: String,
    /// Name of the first axis.
    pub axis: String,
    /// Its value.
    pub x: String,
    /// Linux's CPU, the model's core, or `all`.
    pub cpu: String,
}

/// Whether and how a value was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Counted or timed over the whole region.
    Exact,
    /// Multiplexed and scaled.
    Partial,
    /// Could not be had; `detail` says why.
    Unavailable,
    /// From the model.
    Estimated,
    /// Measured, but disturbed; `detail` says by what.
    Spoiled,
}

/// Declares a row: the keys, then its own columns, flat, so that header and order are one text.
macro_rules! row {
    ($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[allow(missing_docs)]
        pub struct $name {
            pub schema: u32,
            pub experiment: String,
            pub machine: String,
            pub backend: String,
            pub kernel: String,
            pub variant: String,
            pub layout: String,
            pub placement: String,
            pub pages: String,
            pub start: String,
            pub point: String,
            pub axis: String,
            pub x: String,
            pub cpu: String,
            $($(#[$fdoc])* pub $field: $ty,)*
        }
        impl $name {
            /// The row of `keys` with these values.
            #[allow(clippy::too_many_arguments)]
            #[must_use]
            pub fn new(keys: &Keys, $($field: $ty),*) -> $name {
                let k = keys.clone();
                $name {
                    schema: SCHEMA,
                    experiment: k.experiment,
                    machine: k.machine,
                    backend: k.backend,
                    kernel: k.kernel,
                    variant: k.variant,
                    layout: k.layout,
                    placement: k.placement,
                    pages: k.pages,
                    start: k.start,
                    point: k.point,
                    axis: k.axis,
                    x: k.x,
                    cpu: k.cpu,
                    $($field,)*
                }
            }
            /// The keys of this row.
            #[must_use]
            pub fn keys(&self) -> Keys {
                Keys {
                    experiment: self.experiment.clone(),
                    machine: self.machine.clone(),
                    backend: self.backend.clone(),
                    kernel: self.kernel.clone(),
                    variant: self.variant.clone(),
                    layout: self.layout.clone(),
                    placement: self.placement.clone(),
                    pages: self.pages.clone(),
                    start: self.start.clone(),
                    point: self.point.clone(),
                    axis: self.axis.clone(),
                    x: self.x.clone(),
                    cpu: self.cpu.clone(),
                }
            }
        }
    };
}

row! {
    /// `samples.csv`: one raw value.
    Sample {
        /// Of the arena: draws the placement.
        seed: u64,
        /// 0-based.
        repeat: u32,
        metric: String,
        unit: String,
        /// Empty: not measured.
        value: Option<f64>,
        status: Status,
        detail: String,
    }
}

row! {
    /// `summary.csv`: one metric of one point.
    Summary {
        metric: String,
        unit: String,
        /// Values that entered.
        n: u32,
        median: Option<f64>,
        ci_low: Option<f64>,
        ci_high: Option<f64>,
        /// Share of the variance that lies between placements (seeds), 0..=1.
        placement_share: Option<f64>,
        status: Status,
    }
}

row! {
    /// `attribution.csv`: misses of one field in one set.
    Attribution {
        function: String,
        r#struct: String,
        field: String,
        /// Line within the struct.
        line: u32,
        /// Cache or TLB set.
        set: u32,
        /// `l1d`, `l2`, `l3`, `l4`, `memory`, `dtlb`, `stlb`.
        level: String,
        /// `compulsory`, `capacity`, `conflict`, `true-sharing`, `false-sharing`, `translation`.
        cause: String,
        misses_per_op: f64,
        misses_per_visit: f64,
        cycles_per_op: f64,
    }
}

row! {
    /// `sharing.csv`: lines that moved between cores.
    Sharing {
        r#struct: String,
        line: u32,
        field_a: String,
        field_b: String,
        cpu_a: String,
        cpu_b: String,
        kind: String,
        transfers_per_op: f64,
    }
}

/// `verdicts.csv`: what a comparison of two variants says; keys without `x`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Verdict {
    pub schema: u32,
    pub experiment: String,
    pub machine: String,
    pub backend: String,
    pub kernel: String,
    pub variant: String,
    pub layout: String,
    pub placement: String,
    pub pages: String,
    pub start: String,
    pub point: String,
    pub axis: String,
    pub cpu: String,
    pub baseline: String,
    /// `shift`, `ratio`, `knee` or `smallest-detectable`.
    pub what: String,
    pub value: Option<f64>,
    pub unit: String,
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
    pub p_adjusted: Option<f64>,
    pub words: String,
}

/// `point` without the axis `axis`: what a curve over that axis has in common.
#[must_use]
pub fn other_axes(point: &str, axis: &str) -> String {
    let others: Vec<&str> = point
        .split(';')
        .filter(|pair| pair.split_once('=').is_none_or(|(key, _)| key != axis))
        .collect();
    others.join(";")
}

/// Headers of the files, as text: a change of a row that changes a file must change this too.
#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &str = "schema,experiment,machine,backend,kernel,variant,layout,placement,pages,\
                        start,point,axis,x,cpu";

    fn header(row: impl Serialize) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.serialize(row).expect("a row serializes");
        let bytes = writer.into_inner().expect("memory takes all");
        let text = String::from_utf8(bytes).expect("names are ASCII");
        text.lines().next().expect("a header").into()
    }

    #[test]
    fn the_columns_are_those_of_schema_1() {
        let keys = Keys::default();
        let text = String::new;
        let sample = Sample::new(&keys, 1, 0, text(), text(), None, Status::Exact, text());
        let own = "seed,repeat,metric,unit,value,status,detail";
        assert_eq!(header(sample), format!("{KEYS},{own}"));

        let summary = Summary::new(
            &keys,
            text(),
            text(),
            0,
            None,
            None,
            None,
            None,
            Status::Exact,
        );
        let own = "metric,unit,n,median,ci_low,ci_high,placement_share,status";
        assert_eq!(header(summary), format!("{KEYS},{own}"));

        let attribution = Attribution::new(
            &keys,
            text(),
            text(),
            text(),
            0,
            0,
            text(),
            text(),
            0.0,
            0.0,
            0.0,
        );
        let own = "function,struct,field,line,set,level,cause,misses_per_op,misses_per_visit,\
                   cycles_per_op";
        assert_eq!(header(attribution), format!("{KEYS},{own}"));

        let sharing = Sharing::new(
            &keys,
            text(),
            0,
            text(),
            text(),
            text(),
            text(),
            text(),
            0.0,
        );
        let own = "struct,line,field_a,field_b,cpu_a,cpu_b,kind,transfers_per_op";
        assert_eq!(header(sharing), format!("{KEYS},{own}"));

        let own = "baseline,what,value,unit,ci_low,ci_high,p_adjusted,words";
        let keys = KEYS.replace(",x,", ",");
        assert_eq!(recorder::VERDICT_HEADER.join(","), format!("{keys},{own}"));
    }

    #[test]
    fn other_axes_leaves_out_the_plotted_one_only() {
        for (point, axis, others) in [
            ("depth=5", "depth", ""),
            ("cpus=2;depth=5", "depth", "cpus=2"),
            ("cpus=2;depth=5;lines=psi", "depth", "cpus=2;lines=psi"),
            ("cpus=2;depth=5", "cpus", "depth=5"),
        ] {
            assert_eq!(other_axes(point, axis), others, "{point}");
        }
    }
}

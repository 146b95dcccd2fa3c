//! Rows of the results: the columns of every CSV file, in their order.

use serde::{Deserialize, Serialize};

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

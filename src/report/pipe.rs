//! A pipe round trip against published operations per second: pure functions from numbers to
//! tables.
//!
//! Everything is derived from the published operations per second and from the modelled time per
//! operation; the only fitted number is one constant per series, from its root column.

use super::published::{Published, at};

/// Lines that one group visit touches with the parent pointer: the per-CPU counters' line and
/// three of `psi_group` (0, the one of `avgs_work`, the one of `rtpoll_states`). Counted in
/// recorded accesses of Linux 6.1 and 6.12; every other line is the same at each level.
pub const LINES_PER_VISIT: f64 = 4.0;

/// With the patch: also `cgroup.self.parent` and `cgroup.psi`, two lines of one cgroup.
pub const LINES_PER_VISIT_PATCHED: f64 = 6.0;

/// 4 KiB pages that one visit touches: the counters' and the group's.
pub const PAGES_PER_VISIT: f64 = 2.0;

/// With the patch: also the cgroup's, which has a page or half a page of its own.
pub const PAGES_PER_VISIT_PATCHED: f64 = 3.0;

/// Group visits of a round trip on two CPUs, both idle in between: two wakeups and four half
/// switches, each of which walks all `depth` cgroups and `psi_system`.
#[must_use]
pub fn two_cpu_visits(depth: f64) -> f64 {
    6.0 * (depth + 1.0)
}

/// The same with the patch as posted: the switch from idle to the task starts from idle, whose
/// only group is `psi_system`, so two of the six walks shrink to one visit.
#[must_use]
pub fn two_cpu_visits_as_posted(depth: f64) -> f64 {
    4.0 * (depth + 1.0) + 2.0
}

/// Predicted against published at one depth, before or after the change, in ns per operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Levels.
    pub depth: f64,
    /// Which variant.
    pub variant: String,
    /// Modelled time of the walks plus the constant; None if the model did not run it.
    pub predicted_ns: Option<f64>,
    /// What was published.
    pub published_ns: f64,
}

impl Prediction {
    /// Published minus predicted: what the model does not cover.
    #[must_use]
    pub fn residual_ns(&self) -> Option<f64> {
        Some(self.published_ns - self.predicted_ns?)
    }
}

/// What a round trip costs besides the walks: published time at the root, before the change,
/// minus the modelled time of its walks. The only number that is taken from the published ones.
#[must_use]
pub fn constant_ns(
    series: &[&Published],
    modelled_ns: impl Fn(&str, f64) -> Option<f64>,
) -> Option<f64> {
    let root = at(series, 0.0)?;
    Some(root.before_ns - modelled_ns(&root.before_variant, 0.0)?)
}

/// Predictions for every published depth; `modelled_ns(variant, depth)` is the modelled time of
/// the walks of one operation.
#[must_use]
pub fn predictions(
    series: &[&Published],
    modelled_ns: impl Fn(&str, f64) -> Option<f64>,
) -> Vec<Prediction> {
    let constant = constant_ns(series, &modelled_ns);
    let mut out = Vec::new();
    for entry in series {
        let Some(depth) = entry.depth else { continue };
        for (variant, published_ns) in [
            (&entry.before_variant, entry.before_ns),
            (&entry.after_variant, entry.after_ns),
        ] {
            out.push(Prediction {
                depth,
                variant: variant.clone(),
                predicted_ns: constant.and_then(|c| Some(c + modelled_ns(variant, depth)?)),
                published_ns,
            });
        }
    }
    out
}

/// The slip of the patch as posted, against what was published at `depth`.
#[derive(Clone, Debug, PartialEq)]
pub struct Slip {
    /// Levels.
    pub depth: f64,
    /// Visits of a round trip on two CPUs.
    pub visits: f64,
    /// The same as posted.
    pub visits_as_posted: f64,
    /// Time of one visit, from the published times before the change: `depth` minus root.
    pub visit_ns: f64,
    /// Change predicted from the visits that are left out, in ns per operation.
    pub predicted_ns: f64,
    /// Published change at `depth`, less the change at the root.
    pub published_ns: f64,
}

/// The slip at `depth`, from the numbers of `series` alone. None without root or `depth`.
#[must_use]
pub fn slip(series: &[&Published], depth: f64) -> Option<Slip> {
    let (root, deep) = (at(series, 0.0)?, at(series, depth)?);
    let visits = two_cpu_visits(depth);
    let visits_as_posted = two_cpu_visits_as_posted(depth);
    let visit_ns =
        (deep.before_ns - root.before_ns) / (two_cpu_visits(depth) - two_cpu_visits(0.0));
    Some(Slip {
        depth,
        visits,
        visits_as_posted,
        visit_ns,
        predicted_ns: -(visits - visits_as_posted) * visit_ns,
        published_ns: (deep.after_ns - deep.before_ns) - (root.after_ns - root.before_ns),
    })
}

/// Slopes between two depths, before and after the change.
#[derive(Clone, Debug, PartialEq)]
pub struct Slopes {
    /// Shallower end.
    pub from: f64,
    /// Deeper end.
    pub to: f64,
    /// Before the change, in ns per level and operation.
    pub before_ns: f64,
    /// After it.
    pub after_ns: f64,
}

impl Slopes {
    /// After over before.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.after_ns / self.before_ns
    }

    /// One visit before and after the change, in ns, with six visits per level and operation.
    #[must_use]
    pub fn visit_ns(&self) -> (f64, f64) {
        let visits = two_cpu_visits(1.0) - two_cpu_visits(0.0);
        (self.before_ns / visits, self.after_ns / visits)
    }

    /// One line before and after the change, in ns, if lines are all that costs.
    #[must_use]
    pub fn line_ns(&self) -> (f64, f64) {
        let (before, after) = self.visit_ns();
        (before / LINES_PER_VISIT, after / LINES_PER_VISIT_PATCHED)
    }

    /// One page before and after the change, in ns, if pages are all that costs.
    #[must_use]
    pub fn page_ns(&self) -> (f64, f64) {
        let (before, after) = self.visit_ns();
        (before / PAGES_PER_VISIT, after / PAGES_PER_VISIT_PATCHED)
    }
}

/// Slopes of published times between `from` and `to` levels.
#[must_use]
pub fn published_slopes(series: &[&Published], from: f64, to: f64) -> Option<Slopes> {
    let (a, b) = (at(series, from)?, at(series, to)?);
    Some(Slopes {
        from,
        to,
        before_ns: (b.before_ns - a.before_ns) / (to - from),
        after_ns: (b.after_ns - a.after_ns) / (to - from),
    })
}

/// Slopes of modelled times between the same levels.
#[must_use]
pub fn modelled_slopes(
    (before, after): (&str, &str),
    from: f64,
    to: f64,
    modelled_ns: impl Fn(&str, f64) -> Option<f64>,
) -> Option<Slopes> {
    let slope =
        |variant| Some((modelled_ns(variant, to)? - modelled_ns(variant, from)?) / (to - from));
    Some(Slopes {
        from,
        to,
        before_ns: slope(before)?,
        after_ns: slope(after)?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::published::ns_per_op;
    use super::*;

    fn entry(depth: f64, before_ops: f64, after_ops: f64) -> Published {
        Published {
            source: "s".into(),
            machine: "m".into(),
            note: String::new(),
            depth: Some(depth),
            before_variant: "parent".into(),
            after_variant: "cgroup".into(),
            before_ns: ns_per_op(before_ops),
            after_ns: ns_per_op(after_ops),
        }
    }

    /// The rebased series of the patch's thread (operations per second at root, 5, 8 and 50
    /// levels). By hand: 1e9/25605.74 - 1e9/48902.4 = 18605 ns over 42 levels is 443 ns, with
    /// the patch 1e9/20417.28 - 1e9/47476.6 = 27915 ns is 665 ns. At six visits per level that
    /// is 73.8 and 110.8 ns per visit, 37 ns more, and 18.5 ns for each of 4 and of 6 lines.
    #[test]
    fn the_published_slopes_are_six_lines_to_four() {
        let all = [
            entry(0.0, 55718.9, 55862.2),
            entry(5.0, 49975.5, 50778.5),
            entry(8.0, 48902.4, 47476.6),
            entry(50.0, 25605.74, 20417.28),
        ];
        let series: Vec<&Published> = all.iter().collect();
        let slopes = published_slopes(&series, 8.0, 50.0).unwrap();
        assert!((slopes.before_ns - 443.0).abs() < 0.5, "{slopes:?}");
        assert!((slopes.after_ns - 664.6).abs() < 0.5, "{slopes:?}");
        assert!((slopes.ratio() - 1.5).abs() < 0.001);
        let (before, after) = slopes.line_ns();
        assert!((before - 18.5).abs() < 0.1 && (after - 18.5).abs() < 0.1);
        let (before, after) = slopes.visit_ns();
        assert!((after - before - 37.0).abs() < 0.2);
    }

    /// Mail A, first version, i7-9700 and 5900HX, root and 5 levels. Two of six walks lose all
    /// but one visit: 36 - 26 = 10 visits at 5 levels. One visit is (20.911 - 18.066) us / 30 =
    /// 94.8 ns, so -0.95 us; published: -1.259 + 0.219 = -1.04 us. On the 5900HX (7.759 - 7.198)
    /// us / 30 = 18.7 ns, so -0.19 us, published -0.235 us.
    #[test]
    fn the_slip_explains_the_first_gain() {
        let cases = [
            ([55352.0, 56036.0, 47821.0, 50884.0], -948.0, -1038.0),
            ([138_919.0, 139_580.0, 128_888.0, 133_514.0], -187.0, -235.0),
        ];
        for ([root_a, root_b, deep_a, deep_b], predicted, published) in cases {
            let all = [entry(0.0, root_a, root_b), entry(5.0, deep_a, deep_b)];
            let series: Vec<&Published> = all.iter().collect();
            let slip = slip(&series, 5.0).unwrap();
            assert_eq!((slip.visits, slip.visits_as_posted), (36.0, 26.0));
            assert!((slip.predicted_ns - predicted).abs() < 2.0, "{slip:?}");
            assert!((slip.published_ns - published).abs() < 2.0, "{slip:?}");
        }
    }

    /// With a model of 10 ns per visit and level before and 20 after, and a root of 1000 ns: the
    /// constant is 1000 - 60 = 940, the prediction at 5 levels 940 + 360 and 940 + 720; the root
    /// before the change has no residual because it is the one that was calibrated on.
    #[test]
    fn calibration_is_on_the_root_only() {
        let all = [entry(0.0, 1e6, 1e6), entry(5.0, 5e5, 4e5)];
        let series: Vec<&Published> = all.iter().collect();
        let model = |variant: &str, depth: f64| {
            let visit = if variant == "parent" { 10.0 } else { 20.0 };
            Some(visit * two_cpu_visits(depth))
        };
        assert_eq!(constant_ns(&series, model), Some(940.0));
        let predicted: Vec<_> = predictions(&series, model)
            .iter()
            .map(|p| (p.predicted_ns.unwrap(), p.residual_ns().unwrap()))
            .collect();
        assert_eq!(
            predicted,
            [
                (1000.0, 0.0),
                (1060.0, -60.0),
                (1300.0, 700.0),
                (1660.0, 840.0)
            ]
        );
        let none = predictions(&series, |_, _| None);
        assert!(none.iter().all(|p| p.residual_ns().is_none()));
    }
}

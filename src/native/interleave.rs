//! The order of measurements: every repeat visits all cases once, in a fresh random order, so that
//! drift of the host hits all of them alike.

use std::convert::Infallible;

use kernels::arena::Random;

/// Run `measure` on every case `repeats` times after one warm-up pass, whose results are dropped;
/// each pass visits the cases in a new random order drawn from `seed`.
///
/// Yields `repeats` results per case, in the order of the passes. `measure` gets the pass it is in;
/// pass 0 is the warm-up.
pub fn interleave<C, R>(
    cases: &mut [C],
    repeats: u32,
    seed: u64,
    measure: impl FnMut(&mut C, u32) -> R,
) -> Vec<Vec<R>> {
    let nothing = |_: &mut [C], _: &[usize]| Ok::<(), Infallible>(());
    match interleave_after(cases, repeats, seed, nothing, measure, |_| false) {
        Ok(results) => results,
        Err(never) => match never {},
    }
}

/// [`interleave`], and before each pass `begin` gets all cases and the order in which they will be
/// visited; after each `enough` gets the results so far, and says whether it was the last.
///
/// # Errors
/// That of `begin`.
pub fn interleave_after<C, R, E>(
    cases: &mut [C],
    repeats: u32,
    seed: u64,
    mut begin: impl FnMut(&mut [C], &[usize]) -> Result<(), E>,
    mut measure: impl FnMut(&mut C, u32) -> R,
    mut enough: impl FnMut(&[Vec<R>]) -> bool,
) -> Result<Vec<Vec<R>>, E> {
    let mut random = Random(seed);
    let mut order: Vec<usize> = (0..cases.len()).collect();
    let mut results: Vec<Vec<R>> = cases.iter().map(|_| Vec::new()).collect();
    for pass in 0..=repeats {
        random.shuffle(&mut order);
        begin(cases, &order)?;
        for &case in &order {
            let result = measure(&mut cases[case], pass);
            if pass > 0 {
                results[case].push(result);
            }
        }
        if enough(&results) {
            break;
        }
    }
    Ok(results)
}

/// How many operations make a sample of at least `target_ns`, at most `most`.
///
/// `time_ns` runs that many operations and yields the nanoseconds they took. Counts double until a
/// run lasts a quarter of the target (short runs are all overhead); the rest is a proportion.
pub fn operations_per_sample(
    target_ns: u64,
    most: u64,
    mut time_ns: impl FnMut(u64) -> u64,
) -> u64 {
    let mut operations = 1;
    loop {
        let took_ns = time_ns(operations);
        if took_ns >= target_ns || operations >= most {
            return operations.min(most);
        }
        if took_ns >= target_ns / 4 && took_ns > 0 {
            let scaled = u128::from(operations) * u128::from(target_ns);
            let scaled = scaled.div_ceil(u128::from(took_ns));
            return u64::try_from(scaled).unwrap_or(most).min(most);
        }
        operations = (operations * 2).min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_repeat_visits_all_cases_and_the_first_is_dropped() {
        let mut visits = Vec::new();
        let mut begun: Vec<Vec<i32>> = Vec::new();
        let mut begin = |cases: &mut [i32], order: &[usize]| {
            begun.push(order.iter().map(|i| cases[*i]).collect());
            Ok::<(), ()>(())
        };
        let measure = |case: &mut i32, pass| {
            visits.push((*case, pass));
            (*case, pass)
        };
        let enough = |results: &[Vec<(i32, u32)>]| results[0].len() == 20;
        let results = interleave_after(&mut [0, 1, 2, 3], 30, 7, &mut begin, measure, enough);
        let results = results.expect("begin never fails");
        assert_eq!(visits.len(), 4 * 21);
        let mut orders = std::collections::BTreeSet::new();
        for (pass, round) in visits.chunks(4).enumerate() {
            assert!(round.iter().all(|v| v.1 as usize == pass));
            let order: Vec<i32> = round.iter().map(|v| v.0).collect();
            assert_eq!(order, begun[pass]);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
            orders.insert(order);
        }
        // 24 orders, 21 draws: even 5 different ones would be a poor shuffle.
        assert!(orders.len() > 5, "{orders:?}");
        for (case, values) in results.iter().enumerate() {
            let expected: Vec<_> = (1..=20).map(|pass| (case as i32, pass)).collect();
            assert_eq!(values, &expected);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_order() {
        let order = |seed| {
            let mut seen = Vec::new();
            interleave(&mut [0, 1, 2, 3, 4], 3, seed, |c, _| seen.push(*c));
            seen
        };
        assert_eq!(order(3), order(3));
        assert_ne!(order(3), order(4));
    }

    /// An operation of `per_op` ns after a fixed overhead: the count reaches the target and, with
    /// no overhead, exceeds it by less than one doubling.
    #[test]
    fn samples_reach_their_length() {
        for (per_op, overhead, target) in
            [(1, 0, 1000), (7, 30, 20_000), (5000, 0, 1000), (3, 0, 1)]
        {
            let time = |n: u64| n * per_op + overhead;
            let n = operations_per_sample(target, u64::MAX, time);
            assert!(
                time(n) + overhead * 4 >= target,
                "{per_op} {overhead} {target}: {n}"
            );
            assert!(
                n * per_op <= 2 * target.max(per_op),
                "{per_op} {target}: {n}"
            );
        }
        assert_eq!(
            operations_per_sample(1000, 16, |_| 0),
            16,
            "a clock that stands still"
        );
    }
}

//! Numbers as a reader sees them: three significant digits, and "not measured" for what is not there.

/// What stands where a value is missing, NaN or infinite. Never 0.
pub const NOT_MEASURED: &str = "not measured";

/// `value` if it is a number.
#[must_use]
pub fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|v| v.is_finite())
}

/// Three significant digits, at most three decimals; very large and very small in powers of ten.
#[must_use]
pub fn short(value: Option<f64>) -> String {
    let Some(v) = finite(value) else {
        return NOT_MEASURED.to_string();
    };
    let size = v.abs();
    let text = if size == 0.0 {
        "0".to_string()
    } else if !(1e-3..1e7).contains(&size) {
        format!("{v:.2e}")
    } else if size >= 99.95 {
        format!("{v:.0}")
    } else if size >= 9.995 {
        format!("{v:.1}")
    } else if size >= 0.0995 {
        format!("{v:.2}")
    } else {
        format!("{v:.3}")
    };
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.to_string(),
        _ => text,
    }
}

/// [`short`] with a sign on positive values.
#[must_use]
pub fn signed(value: Option<f64>) -> String {
    let text = short(value);
    match finite(value) {
        Some(v) if v > 0.0 => format!("+{text}"),
        _ => text,
    }
}

/// `value` in percent with its sign, no decimals from 10 % on.
#[must_use]
pub fn percent(value: Option<f64>) -> String {
    match finite(value) {
        None => NOT_MEASURED.to_string(),
        Some(v) if v.abs() >= 0.0995 => format!("{:.0} %", v * 100.0),
        Some(v) => format!("{:.1} %", v * 100.0),
    }
}

/// `[low, high]`, or nothing if an end is missing.
#[must_use]
pub fn interval(low: Option<f64>, high: Option<f64>) -> String {
    match (finite(low), finite(high)) {
        (Some(low), Some(high)) => format!("[{}, {}]", short(Some(low)), short(Some(high))),
        _ => String::new(),
    }
}

/// `value` for a `<data value>`: enough digits to check against the CSV, none that only cost room.
#[must_use]
pub fn exact(value: f64) -> String {
    let rounded = format!("{value:.6e}").parse::<f64>().unwrap_or(value);
    format!("{rounded}")
}

/// The `share` quantile (0..=1) of `values` by linear interpolation between order statistics.
#[must_use]
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let at = share.clamp(0.0, 1.0) * last as f64;
    let low = at.floor() as usize;
    let high = at.ceil() as usize;
    Some(sorted[low] + (sorted[high] - sorted[low]) * (at - low as f64))
}

/// `a`, `a and b`, `a, b and c`.
#[must_use]
pub fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three significant digits by definition; a missing or non-finite value is never a number.
    #[test]
    fn digits_and_missing_values() {
        for (value, expected) in [
            (Some(0.0), "0"),
            (Some(12.345), "12.3"),
            (Some(1.2345), "1.23"),
            (Some(0.01234), "0.012"),
            (Some(1234.5), "1234"),
            (Some(-0.00012), "-1.20e-4"),
            (Some(3e20), "3.00e20"),
            (Some(f64::NAN), NOT_MEASURED),
            (Some(f64::INFINITY), NOT_MEASURED),
            (None, NOT_MEASURED),
        ] {
            assert_eq!(short(value), expected, "{value:?}");
        }
        assert_eq!(signed(Some(1.0)), "+1.00");
        assert_eq!(interval(Some(1.0), None), "");
    }

    /// Of 0..=10 the 90th percentile is 9 and the median 5; of nothing there is none.
    #[test]
    fn quantiles_of_a_ramp() {
        let ramp: Vec<f64> = (0..=10).map(f64::from).collect();
        assert_eq!(quantile(&ramp, 0.9), Some(9.0));
        assert_eq!(quantile(&ramp, 0.5), Some(5.0));
        assert_eq!(quantile(&[1.0, 2.0], 0.5), Some(1.5));
        assert_eq!(quantile(&[], 0.5), None);
    }
}

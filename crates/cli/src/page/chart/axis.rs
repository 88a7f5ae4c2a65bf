//! An axis of a chart: the range that it covers and its ticks.

/// How an axis runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) logarithmic: bool,
    /// Only whole numbers mean something on it: epochs, images.
    pub(super) whole: bool,
}

impl Axis {
    /// An axis that holds all values, with some room; finite values only are passed in.
    pub fn around(values: impl Iterator<Item = f64>, logarithmic: bool) -> Self {
        let (low, high) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        match (low <= high, logarithmic) {
            (false, _) => Self { low: 0.0, high: 1.0, logarithmic: false, whole: false },
            (true, true) => Self { low: low / 1.1, high: high * 1.1, logarithmic, whole: false },
            (true, false) => {
                // What differs by rounding alone is drawn as a level, not as a mountain.
                let room = if high - low > 1e-6 { 0.04 * (high - low) } else { 0.5 * high.abs().max(1.0) };
                // Zero is a natural end of what cannot be negative.
                let low = if low >= 0.0 && low < 0.35 * high.max(room) { 0.0 } else { low - room };
                Self { low, high: high + room, logarithmic, whole: false }
            }
        }
    }

    /// Where a value lies, 0 to 1.
    pub fn share(&self, value: f64) -> f64 {
        if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    /// Round values, at most about six.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (self.high / self.low).log10();
            let factors: &[f64] = if decades < 1.0 {
                &[1.0, 2.0, 3.0, 5.0, 7.0]
            } else if decades < 3.0 {
                &[1.0, 3.0]
            } else {
                &[1.0]
            };
            let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
            let all = (first..=last).flat_map(|power| factors.iter().map(move |f| f * 10f64.powi(power)));
            return all.filter(|tick| (self.low..=self.high).contains(tick)).collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|f| f * power).into_iter().find(|&s| s >= rough).unwrap_or(rough);
        let step = if self.whole { step.max(1.0) } else { step };
        let first = (self.low / step).ceil() as i64;
        (first..)
            .map(|k| k as f64 * step)
            .take_while(|&tick| tick <= self.high + 1e-9 * step)
            .take(12)
            .collect()
    }
}

/// Ticks are round: no trailing zeros.
pub(super) fn tick_text(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    if !(1e-3..1e5).contains(&value.abs()) {
        // As many digits as it takes: 1.5e-4 is not 2e-4.
        let short = format!("{value:.0e}");
        let exact = short.parse::<f64>().is_ok_and(|read| (read - value).abs() <= 1e-6 * value.abs());
        return if exact { short } else { format!("{value:.1e}") };
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let axis = Axis { low: 0.0, high: 0.47, logarithmic: false, whole: false };
        assert_eq!(
            axis.ticks().iter().map(|&t| tick_text(t)).collect::<Vec<_>>(),
            ["0", "0.1", "0.2", "0.3", "0.4"]
        );
        let axis = Axis { low: 1.0, high: 2.0, logarithmic: false, whole: true };
        assert_eq!(axis.ticks(), [1.0, 2.0]);
        let axis = Axis { low: 0.002, high: 0.4, logarithmic: true, whole: false };
        assert_eq!(
            axis.ticks().iter().map(|&t| tick_text(t)).collect::<Vec<_>>(),
            ["0.003", "0.01", "0.03", "0.1", "0.3"]
        );
        assert_eq!([200_000.0, 1.5e-4, 3.0 * 5e-5].map(tick_text), ["2e5", "1.5e-4", "1.5e-4"]);
    }
}

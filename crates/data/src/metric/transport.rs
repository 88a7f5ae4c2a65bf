//! Optimal transport between two small weighted sets: successive shortest paths with potentials.
//!
//! Masses and gains become integers, so that equal paths are equal to the bit, and of equal paths the one
//! with the fewest arcs is taken. Without both, paths of rounding's one unit can undo each other's work, and
//! the search takes as many steps as there are units.

/// Mass one in integer units. Cutting the weights to them moves the result by less than 1e-13.
const UNITS: i64 = 1 << 50;

/// The largest gain in integer units. A path's length stays below this times the number of sinks.
const GAIN_UNITS: f64 = (1u64 << 44) as f64;

/// The largest Σ P_ij gain(i, j) over plans P ≥ 0 with the given row and column sums; both sum to one.
pub fn largest_gain(rows: &[f64], columns: &[f64], gain: impl Fn(usize, usize) -> f64) -> f64 {
    best_plan(rows, columns, &gain).iter().map(|&(row, column, mass)| mass * gain(row, column)).sum()
}

/// The plan of largest gain: row, column and mass of each cell that has any.
pub fn best_plan(
    rows: &[f64],
    columns: &[f64],
    gain: impl Fn(usize, usize) -> f64,
) -> Vec<(usize, usize, f64)> {
    // The search runs over the sinks: let them be the smaller side.
    let swap = columns.len() > rows.len();
    let (sources, sinks) = if swap { (columns, rows) } else { (rows, columns) };
    let at = |k: usize, sink: usize| if swap { (sink, k) } else { (k, sink) };
    let cells = (0..sources.len()).flat_map(|k| (0..sinks.len()).map(move |sink| at(k, sink)));
    let gains: Vec<f64> = cells.clone().map(|(row, column)| gain(row, column)).collect();
    let flow = plan(&as_costs(&gains), &in_units(sources), in_units(sinks));
    let used = cells.zip(flow).filter(|(_, units)| *units > 0);
    used.map(|((row, column), units)| (row, column, units as f64 / UNITS as f64)).collect()
}

/// Weights as whole units that sum to [`UNITS`]; what rounding leaves over goes to the largest.
fn in_units(weights: &[f64]) -> Vec<i64> {
    let mut units: Vec<i64> = weights.iter().map(|weight| (weight * UNITS as f64) as i64).collect();
    let rest = UNITS - units.iter().sum::<i64>();
    *units.iter_mut().max().expect("a set has at least one member") += rest;
    units
}

/// Gains as whole costs, the largest gain as the lowest.
fn as_costs(gains: &[f64]) -> Vec<i64> {
    let largest = gains.iter().fold(0.0, |largest: f64, gain| largest.max(gain.abs()));
    let scale = if largest > 0.0 { GAIN_UNITS / largest } else { 0.0 };
    gains.iter().map(|gain| -(gain * scale).round() as i64).collect()
}

/// How far a sink is: the cost of the way there, then the number of its arcs.
type Distance = (i64, usize);

/// The flow of least cost from `supply` to `demand`, row by row.
///
/// `price` is the sinks' dual variable: a source k that serves sink j has cost − price least at j, so
/// rerouting it to j' costs the difference, never below zero.
fn plan(costs: &[i64], supply: &[i64], mut demand: Vec<i64>) -> Vec<i64> {
    let sinks = demand.len();
    let mut flow = vec![0i64; costs.len()];
    let mut price = vec![0i64; sinks];
    for (source, &units) in supply.iter().enumerate() {
        let mut left = units;
        while left > 0 {
            let reduced = |k: usize, sink: usize| costs[k * sinks + sink] - price[sink];
            let mut distance: Vec<Distance> = (0..sinks).map(|sink| (reduced(source, sink), 1)).collect();
            // By which sink and which source that serves it a sink was reached; none: from the start.
            let mut previous: Vec<Option<(usize, usize)>> = vec![None; sinks];
            let mut settled = vec![false; sinks];
            let end = loop {
                let nearest = (0..sinks)
                    .filter(|&sink| !settled[sink])
                    .min_by_key(|&sink| distance[sink])
                    .expect("supply and demand are equal, so some sink is open");
                if demand[nearest] > 0 {
                    break nearest;
                }
                settled[nearest] = true;
                let (cost, arcs) = distance[nearest];
                for k in (0..supply.len()).filter(|&k| flow[k * sinks + nearest] > 0) {
                    for sink in (0..sinks).filter(|&sink| !settled[sink]) {
                        let reached = (cost + reduced(k, sink) - reduced(k, nearest), arcs + 1);
                        if reached < distance[sink] {
                            distance[sink] = reached;
                            previous[sink] = Some((nearest, k));
                        }
                    }
                }
            };
            for sink in (0..sinks).filter(|&sink| settled[sink]) {
                price[sink] += distance[sink].0 - distance[end].0;
            }
            let mut moved = left.min(demand[end]);
            let mut sink = end;
            while let Some((before, k)) = previous[sink] {
                moved = moved.min(flow[k * sinks + before]);
                sink = before;
            }
            sink = end;
            while let Some((before, k)) = previous[sink] {
                flow[k * sinks + sink] += moved;
                flow[k * sinks + before] -= moved;
                sink = before;
            }
            flow[source * sinks + sink] += moved;
            demand[end] -= moved;
            left -= moved;
        }
    }
    flow
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_problems_by_hand() {
        let one = [[1.0, 0.0], [0.0, 1.0]];
        assert_eq!(largest_gain(&[0.5, 0.5], &[0.5, 0.5], |i, j| one[i][j]), 1.0);
        assert_eq!(largest_gain(&[0.75, 0.25], &[0.25, 0.75], |i, j| one[i][j]), 0.5);
        assert_eq!(largest_gain(&[1.0], &[0.25, 0.75], |_, j| [1.0, 0.5][j]), 0.625);
        // The second source must push the first one away from the sink both prefer.
        let prefer = [[0.9, 0.8], [0.9, 0.1]];
        assert!((largest_gain(&[0.5, 0.5], &[0.5, 0.5], |i, j| prefer[i][j]) - 0.85).abs() < 1e-15);
    }

    /// Thirds that rounding left a unit apart: each way around is as good as the other, one unit at a time.
    #[test]
    fn ways_of_one_unit_do_not_undo_each_other() {
        let third = [1.0 / 3.0; 3];
        let square = [
            [0.10810810810810811, 0.3194444444444444, 0.26666666666666666],
            [0.09375, 0.2361111111111111, 0.1590909090909091],
            [0.2, 0.5, 0.37254901960784315],
        ];
        let gain = largest_gain(&third, &third, |i, j| square[i][j]);
        let best = (square[1][0] + square[2][1] + square[0][2]) / 3.0;
        assert!((gain - best).abs() < 1e-12, "{gain} {best}");

        let broad = [
            [0.20408163265306123, 0.23255813953488372, 0.4339622641509434, 0.0, 0.4861111111111111],
            [0.2830188679245283, 0.19230769230769232, 0.4166666666666667, 0.0, 0.6111111111111112],
            [0.1935483870967742, 0.06896551724137931, 0.125, 0.0, 0.18055555555555555],
        ];
        let sixths = [1.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0, 2.0 / 6.0];
        let gain = largest_gain(&third, &sixths, |i, j| broad[i][j]);
        let best = (broad[0][1] + broad[0][2] + 2.0 * broad[1][4] + broad[2][0] + broad[2][3]) / 6.0;
        assert!((gain - best).abs() < 1e-12, "{gain} {best}");
    }
}

//! Optimal transport between two small weighted sets, exactly: successive shortest paths with
//! potentials. Masses become integers, so that every path empties something for good.

/// Mass one in integer units. Cutting the weights to them moves the result by less than 1e-13.
const UNITS: i64 = 1 << 50;

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
    let flow = plan(&gains, &in_units(sources), in_units(sinks));
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

/// The flow of largest gain from `supply` to `demand`, row by row.
///
/// `price` is the sinks' dual variable: with cost = −gain, a source k that serves sink j has
/// cost − price least at j, so rerouting it to j' costs the difference, never below zero.
fn plan(gains: &[f64], supply: &[i64], mut demand: Vec<i64>) -> Vec<i64> {
    let sinks = demand.len();
    let mut flow = vec![0i64; gains.len()];
    let mut price = vec![0.0; sinks];
    for (source, &units) in supply.iter().enumerate() {
        let mut left = units;
        while left > 0 {
            let reduced = |k: usize, sink: usize| -gains[k * sinks + sink] - price[sink];
            let mut distance: Vec<f64> = (0..sinks).map(|sink| reduced(source, sink)).collect();
            // By which sink and which source that serves it a sink was reached; none: from the start.
            let mut previous: Vec<Option<(usize, usize)>> = vec![None; sinks];
            let mut settled = vec![false; sinks];
            let end = loop {
                let nearest = (0..sinks)
                    .filter(|&sink| !settled[sink])
                    .min_by(|&a, &b| distance[a].total_cmp(&distance[b]))
                    .expect("supply and demand are equal, so some sink is open");
                if demand[nearest] > 0 {
                    break nearest;
                }
                settled[nearest] = true;
                for k in (0..supply.len()).filter(|&k| flow[k * sinks + nearest] > 0) {
                    for sink in (0..sinks).filter(|&sink| !settled[sink]) {
                        let detour = (reduced(k, sink) - reduced(k, nearest)).max(0.0);
                        if distance[nearest] + detour < distance[sink] {
                            distance[sink] = distance[nearest] + detour;
                            previous[sink] = Some((nearest, k));
                        }
                    }
                }
            };
            for sink in (0..sinks).filter(|&sink| settled[sink]) {
                price[sink] += distance[sink] - distance[end];
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
}

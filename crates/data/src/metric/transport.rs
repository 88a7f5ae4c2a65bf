//! Optimal transport between two small weighted sets: successive shortest paths with potentials.
//!
//! Masses and gains become integers, so that equal paths are equal to the bit, and of equal paths the one
//! with the fewest arcs is taken. Without both, paths of rounding's one unit can undo each other's work, and
//! the search takes as many steps as there are units.

use multiversion::multiversion;

/// Mass one in integer units. Cutting the weights to them moves the result by less than 1e-13.
const UNITS: i64 = 1 << 50;

/// Bits of the largest gain in integer units, where that leaves room: a path's length stays below this gain times the
/// number of sinks.
const GAIN_BITS: u32 = 44;
/// Bits that the length of a path and the number of its arcs may take together.
const PATH_BITS: u32 = 60;

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
    let gains: Vec<f64> = cells.map(|(row, column)| gain(row, column)).collect();
    let arc_bits = (sinks.len() + 1).next_power_of_two().ilog2();
    let costs = as_costs(&gains, GAIN_BITS.min(PATH_BITS - 2 * arc_bits), arc_bits);
    let flow = plan(&costs, arc_bits, &in_units(sources), in_units(sinks)).into_iter();
    let cell = |(source, sink, units)| {
        let (row, column) = at(source, sink);
        (row, column, units as f64 / UNITS as f64)
    };
    flow.map(cell).collect()
}

/// Weights as whole units that sum to [`UNITS`]; what rounding leaves over goes to the largest.
fn in_units(weights: &[f64]) -> Vec<i64> {
    let mut units: Vec<i64> = weights.iter().map(|weight| (weight * UNITS as f64) as i64).collect();
    let rest = UNITS - units.iter().sum::<i64>();
    *units.iter_mut().max().expect("a set has at least one member") += rest;
    units
}

/// Gains as whole costs, the largest gain as the lowest, above bits that stay free for the number of a path's arcs.
fn as_costs(gains: &[f64], gain_bits: u32, arc_bits: u32) -> Vec<i64> {
    let largest = gains.iter().fold(0.0, |largest: f64, gain| largest.max(gain.abs()));
    let scale = if largest > 0.0 { (1u64 << gain_bits) as f64 / largest } else { 0.0 };
    gains.iter().map(|gain| -(gain * scale).round() as i64 * (1 << arc_bits)).collect()
}

/// Whom a sink is served by, in the order of the sources, and with how much. A plan has few of these: at most one less
/// than there are sources and sinks together.
type Served = Vec<(usize, i64)>;

/// Changes what a source gives to a sink.
fn give(served: &mut Served, source: usize, units: i64) {
    match served.binary_search_by_key(&source, |&(by, _)| by) {
        Ok(place) => {
            served[place].1 += units;
            if served[place].1 == 0 {
                served.remove(place);
            }
        }
        Err(place) => served.insert(place, (source, units)),
    }
}

/// The way to a sink that is reached from the start; others are told by their places in a list.
const FROM_THE_START: u32 = u32::MAX;

/// Shortens the distances of all sinks by a way that leads there over a source with these costs. Sinks that are settled
/// are no farther than where the way begins, so they stay as they are.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn shorten(distance: &mut [i64], previous: &mut [u32], start: i64, costs: &[i64], prices: &[i64], way: u32) {
    let sinks = distance.iter_mut().zip(previous).zip(costs.iter().zip(prices));
    for ((distance, previous), (cost, price)) in sinks {
        let reached = start + cost - price;
        let better = reached < *distance;
        *distance = if better { reached } else { *distance };
        *previous = if better { way } else { *previous };
    }
}

/// What the distance of a sink is raised to, at least, when the nearest one is looked for.
const OPEN: i64 = i64::MIN;
const SETTLED: i64 = i64::MAX;

/// The first of the nearest sinks that are not settled: supply and demand are equal, so there is one.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn nearest_open(distance: &[i64], closed: &[i64]) -> usize {
    let of_open = || distance.iter().zip(closed).map(|(&distance, &closed)| distance.max(closed));
    let least = of_open().fold(i64::MAX, i64::min);
    of_open().position(|distance| distance == least).expect("some sink is open")
}

/// The flow of least cost from `supply` to `demand`: source, sink and units, source by source.
///
/// `price` is the sinks' dual variable: a source k that serves sink j has cost − price least at j, so
/// rerouting it to j' costs the difference, never below zero. A distance has the number of arcs in its last bits: of
/// equally short paths the one with the fewest arcs is nearest.
fn plan(costs: &[i64], arc_bits: u32, supply: &[i64], mut demand: Vec<i64>) -> Vec<(usize, usize, i64)> {
    let sinks = demand.len();
    let costs_of = |source: usize| &costs[source * sinks..][..sinks];
    let length = |distance: i64| distance >> arc_bits << arc_bits;
    let mut served: Vec<Served> = vec![Vec::new(); sinks];
    let mut price = vec![0i64; sinks];
    for (source, &units) in supply.iter().enumerate() {
        let mut left = units;
        while left > 0 {
            let direct = costs_of(source).iter().zip(&price);
            let mut distance: Vec<i64> = direct.map(|(cost, price)| cost - price + 1).collect();
            // Ways over another sink and a source that serves it, and which of them leads to each sink.
            let mut ways: Vec<(usize, usize)> = Vec::new();
            let mut previous = vec![FROM_THE_START; sinks];
            let mut closed = vec![OPEN; sinks];
            let end = loop {
                let nearest = nearest_open(&distance, &closed);
                if demand[nearest] > 0 {
                    break nearest;
                }
                closed[nearest] = SETTLED;
                for &(by, _) in &served[nearest] {
                    let costs = costs_of(by);
                    let start = distance[nearest] - (costs[nearest] - price[nearest]) + 1;
                    shorten(&mut distance, &mut previous, start, costs, &price, ways.len() as u32);
                    ways.push((nearest, by));
                }
            };
            for sink in (0..sinks).filter(|&sink| closed[sink] == SETTLED) {
                price[sink] += length(distance[sink]) - length(distance[end]);
            }
            let before = |sink: usize| ways.get(previous[sink] as usize).copied();
            let given = |sink: usize, source: usize| {
                let place = served[sink].binary_search_by_key(&source, |&(by, _)| by);
                served[sink][place.expect("the way leads over a source that serves the sink")].1
            };
            let mut moved = left.min(demand[end]);
            let mut sink = end;
            while let Some((over, by)) = before(sink) {
                moved = moved.min(given(over, by));
                sink = over;
            }
            sink = end;
            while let Some((over, by)) = before(sink) {
                give(&mut served[sink], by, moved);
                give(&mut served[over], by, -moved);
                sink = over;
            }
            give(&mut served[sink], source, moved);
            demand[end] -= moved;
            left -= moved;
        }
    }
    let of_sink =
        |(sink, served): (usize, Served)| served.into_iter().map(move |(by, units)| (by, sink, units));
    let mut flow: Vec<_> = served.into_iter().enumerate().flat_map(of_sink).collect();
    flow.sort_unstable();
    flow
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;
    use crate::metric::assignment;

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

    /// Beyond 254 members gains have fewer bits. With equal weights the best plan is the best assignment, which another
    /// algorithm finds.
    #[test]
    fn plans_of_many_members_are_the_best_assignments() {
        for count in [40, 300] {
            let mut random = Draw::new(1, &["transport"], count as u64);
            let gains: Vec<f64> = (0..count * count).map(|_| random.unit()).collect();
            let gain = |i: usize, j: usize| gains[i * count + j];
            let weights = vec![1.0 / count as f64; count];
            let partners = assignment::cheapest(count, count, |i, j| -gain(i, j));
            let best = partners.iter().enumerate().map(|(i, &j)| gain(i, j)).sum::<f64>() / count as f64;
            let found = largest_gain(&weights, &weights, gain);
            assert!((found - best).abs() < 1e-9, "{count}: {found} {best}");
        }
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

//! The most probable volumes: the best paths of a chain, those that are nearly the same volume counted as one.
//!
//! From slice to slice the most probable paths to each member are kept. Paths that end at the same member have the
//! same future, so that two of them that are nearly the same volume so far may become one whose probability is their
//! sum, with nothing lost. Every volume that is counted in a hypothesis has at least the IoU that was asked for with
//! it: the pixels in which merged paths differ are added up (a metric, so that the sum bounds them) and held
//! against the smallest size that the volume can have in the end.

use super::chain::Chain;
use super::{Tables, VolumeHypothesis};

/// Fewest paths that are kept for each member.
const BEAM: usize = 16;
/// Paths below this share of the probability are no longer followed.
const NEGLIGIBLE: f64 = 1e-12;

/// Where a path came from.
struct Node {
    member: usize,
    before: Option<usize>,
}

/// The paths that begin as one does and were counted with it.
#[derive(Clone)]
struct Partial {
    /// The last node of the most probable one.
    node: usize,
    probability: f64,
    /// Its pixels so far, those of all classes.
    pixels: u64,
    /// Most pixels in which another one of them differs from it.
    radius: u64,
}

/// The most probable volumes, at most so many, sorted; those of at least `merge_iou` with a more probable one are
/// counted in it. Of 1 only equal volumes are.
pub fn hypotheses(chain: &Chain, tables: &Tables, count: usize, merge_iou: f64) -> Vec<VolumeHypothesis> {
    let beam = count.max(BEAM);
    let rest = fewest_after(chain, tables);
    let mut nodes: Vec<Node> = Vec::new();
    let mut kept: Vec<Vec<Partial>> = Vec::new();
    for slice in 0..chain.len() {
        let members = tables.members(slice);
        let mut found: Vec<Vec<Partial>> = vec![Vec::new(); members];
        let mut add = |member: usize, before: Option<usize>, from: Option<&Partial>, share: f64| {
            nodes.push(Node { member, before });
            let (probability, pixels, radius) =
                from.map_or((1.0, 0, 0), |from| (from.probability, from.pixels, from.radius));
            found[member].push(Partial {
                node: nodes.len() - 1,
                probability: probability * share,
                pixels: pixels + tables.pixels(slice, member),
                radius,
            });
        };
        if slice == 0 {
            chain.first().iter().enumerate().for_each(|(member, &share)| add(member, None, None, share));
        } else {
            for (ways, partials) in chain.steps(slice - 1).iter().zip(&kept) {
                for partial in partials {
                    ways.iter().for_each(|way| {
                        add(way.to, Some(partial.node), Some(partial), way.probability);
                    });
                }
            }
        }
        let merging = Merging { nodes: &nodes, tables, slice, merge_iou };
        kept = found
            .into_iter()
            .enumerate()
            .map(|(member, found)| merging.merged(found, beam, rest[slice][member]))
            .collect();
    }
    let merging = Merging { nodes: &nodes, tables, slice: chain.len() - 1, merge_iou };
    let mut best = merging.merged(kept.into_iter().flatten().collect(), usize::MAX, 0);
    best.sort_by(|a, b| b.probability.total_cmp(&a.probability));
    best.truncate(count);
    let path = |partial: &Partial| {
        let mut members = Vec::with_capacity(chain.len());
        let mut at = Some(partial.node);
        while let Some(node) = at {
            members.push(nodes[node].member);
            at = nodes[node].before;
        }
        members.reverse();
        members
    };
    best.iter()
        .map(|partial| VolumeHypothesis { members: path(partial), probability: partial.probability })
        .collect()
}

/// By slice and member, the fewest pixels that a path has behind it.
fn fewest_after(chain: &Chain, tables: &Tables) -> Vec<Vec<u64>> {
    let mut fewest = vec![vec![0; tables.members(chain.len() - 1)]];
    for slice in (0..chain.len() - 1).rev() {
        let after = &fewest[fewest.len() - 1];
        let of = |ways: &Vec<super::chain::Step>| {
            let each = ways.iter().map(|way| tables.pixels(slice + 1, way.to) + after[way.to]);
            each.min().unwrap_or(0)
        };
        let here = chain.steps(slice).iter().map(of).collect();
        fewest.push(here);
    }
    fewest.reverse();
    fewest
}

struct Merging<'a> {
    nodes: &'a [Node],
    tables: &'a Tables,
    slice: usize,
    merge_iou: f64,
}

impl Merging<'_> {
    /// The most probable ones, each with those that are nearly the same; at least `rest` pixels are still to come.
    fn merged(&self, mut found: Vec<Partial>, most: usize, rest: u64) -> Vec<Partial> {
        found.retain(|partial| partial.probability > NEGLIGIBLE);
        found.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        let mut kept: Vec<Partial> = Vec::new();
        for partial in found {
            let same = kept.iter().enumerate().find_map(|(place, other)| {
                // Rounded up by a hair: 1 - 0.9 is less than a tenth.
                let allowed = ((1.0 - self.merge_iou) * (other.pixels + rest) as f64 + 1e-6) as u64;
                let room = allowed.checked_sub(partial.radius)?;
                self.difference(partial.node, other.node, room).map(|differing| (place, differing))
            });
            match same {
                Some((place, differing)) => {
                    let other = &mut kept[place];
                    other.probability += partial.probability;
                    other.radius = other.radius.max(differing + partial.radius);
                }
                None if kept.len() < most => kept.push(partial),
                None => {}
            }
        }
        kept
    }

    /// The pixels in which two paths differ; none where they are more than `most`.
    fn difference(&self, mut a: usize, mut b: usize, most: u64) -> Option<u64> {
        let (mut sum, mut slice) = (0, self.slice);
        while a != b {
            let (one, other) = (&self.nodes[a], &self.nodes[b]);
            sum += self.tables.difference(slice, one.member, other.member);
            if sum > most {
                return None;
            }
            let (Some(before), Some(other)) = (one.before, other.before) else { break };
            (a, b, slice) = (before, other, slice - 1);
        }
        Some(sum)
    }
}

//! Which codes serve annotations, and which serve the same image: what decides which codes stay.
//!
//! Outputs of one image are different by definition, so the codes of one image differ too
//! (`assignment.distinct`). Two codes that never serve the same image are therefore not two outputs but one
//! that was split between them, each with a part of its probability: what a code says depends on the image,
//! so that one of them can say both. The rarer one goes into reserve, as idle codes do.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Images between two decisions: enough to tell rare codes from idle ones.
const IMAGES: usize = 2000;
/// Codes belong to one output where they meet less often than this share of what independence would give.
const MEETS: f32 = 0.1;
/// Meetings that independence must give before their absence says anything: by chance alone five are
/// missed once in 150 times. An output that one image in eight has, split in two, gives eight.
const EXPECTED: f32 = 5.0;

/// Counts since the last decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Census {
    codes: usize,
    images: usize,
    /// The weight of annotations that each code served, summed over images.
    served: Vec<f32>,
    /// Images that two codes both served, by `lower · codes + higher`; a code with itself: its own images.
    together: BTreeMap<usize, u32>,
    /// Codes of the image that had most.
    #[serde(default)]
    most: usize,
}

impl Census {
    pub fn new(codes: usize) -> Self {
        Self { codes, images: 0, served: vec![0.0; codes], together: BTreeMap::new(), most: 0 }
    }

    /// How many codes it counts.
    pub fn codes(&self) -> usize {
        self.codes
    }

    /// The first field of a loaded state that contradicts so many codes: its name, a backtick, and the reason.
    pub fn fault(&self, codes: usize) -> Option<String> {
        if self.codes != codes {
            return Some(format!("codes` is {}, the recipe has {codes}", self.codes));
        }
        if self.served.len() != codes {
            return Some(format!("served` has {} entries for {codes} codes", self.served.len()));
        }
        if self.images > u32::MAX as usize || self.most > codes {
            return Some(format!("images` is {} and `census.most` {}", self.images, self.most));
        }
        let wrong = |(&pair, &met): (&usize, &u32)| {
            let (a, b) = (pair / codes, pair % codes);
            let own = self.meetings(a, a).min(self.meetings(b, b)) as usize;
            a > b || met as usize > own.min(self.images)
        };
        let pair = self.together.iter().find(|&pair| codes == 0 || wrong(pair))?;
        Some(format!("together` counts {} images at {}, more than its codes served", pair.1, pair.0))
    }

    /// Counts a batch.
    ///
    /// # Shapes
    /// targets [images, codes]: the weight of annotations that each code serves
    pub fn add(&mut self, targets: &[f32]) {
        for image in targets.chunks_exact(self.codes) {
            self.images += 1;
            let serving: Vec<usize> = (0..self.codes).filter(|&code| image[code] > 0.0).collect();
            self.most = self.most.max(serving.len());
            for (n, &code) in serving.iter().enumerate() {
                self.served[code] += image[code];
                for &other in &serving[n..] {
                    *self.together.entry(code * self.codes + other).or_default() += 1;
                }
            }
        }
    }

    /// Whether enough images were counted: so many, or all of a smaller training set.
    pub fn is_due(&self, cases: usize) -> bool {
        self.images >= IMAGES.min(cases)
    }

    fn meetings(&self, a: usize, b: usize) -> u32 {
        *self.together.get(&(a.min(b) * self.codes + a.max(b))).unwrap_or(&0)
    }

    /// The codes that stay: those that serve at least a share of the annotations and, where outputs of one
    /// image take different codes, do not share an output with another. At least two stay, and as many as some
    /// image needs.
    pub fn staying(&self, active: &[usize], least_share: f32, distinct: bool) -> Vec<usize> {
        let images = self.images.max(1) as f32;
        let busy = |code: &usize| self.served[*code] / images >= least_share;
        let mut staying: Vec<usize> = active.iter().copied().filter(busy).collect();
        if staying.len() < 2 {
            return active.to_vec();
        }
        let mut after = self.clone();
        while distinct && staying.len() > self.most.max(2) {
            let Some((a, b)) = after.most_exclusive(&staying) else { break };
            let (rarer, other) = if after.served[a] < after.served[b] { (a, b) } else { (b, a) };
            after.hand_over(rarer, other);
            staying.retain(|&code| code != rarer);
        }
        staying
    }

    /// Counts one code's images for another, which will serve them. Else, where two groups of images have codes
    /// of their own for the same outputs, codes of both groups would go, and the rest would be too few.
    fn hand_over(&mut self, from: usize, to: usize) {
        self.served[to] += self.served[from];
        for other in (0..self.codes).filter(|&other| other != from) {
            let met = match other == to {
                true => self.meetings(from, from) - self.meetings(from, to),
                false => self.meetings(from, other),
            };
            if met > 0 {
                *self.together.entry(to.min(other) * self.codes + to.max(other)).or_default() += met;
            }
        }
    }

    /// The two codes that share an output most clearly.
    fn most_exclusive(&self, codes: &[usize]) -> Option<(usize, usize)> {
        let mut best = None;
        for (n, &a) in codes.iter().enumerate() {
            for &b in &codes[n + 1..] {
                let [own, others, both] = [(a, a), (b, b), (a, b)].map(|(a, b)| self.meetings(a, b) as f32);
                let expected = own * others / self.images as f32;
                let ratio = both / expected.max(1e-9);
                if expected >= EXPECTED && ratio < best.map_or(MEETS, |(least, _)| least) {
                    best = Some((ratio, (a, b)));
                }
            }
        }
        best.map(|(_, pair)| pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A census of images, each given by the codes that serve it, repeated 100 times.
    fn census(images: &[&[usize]]) -> Census {
        let mut census = Census::new(5);
        for _ in 0..100 {
            for serving in images {
                let mut targets = [0.0; 5];
                serving.iter().for_each(|&code| targets[code] = 1.0 / serving.len() as f32);
                census.add(&targets);
            }
        }
        census
    }

    #[test]
    fn idle_codes_rest_but_two_always_stay() {
        let mut some = census(&[&[0, 1, 2]]);
        some.add(&[0.5, 0.0, 0.0, 0.5, 0.0]);
        assert_eq!(some.staying(&[0, 1, 2, 3, 4], 0.002, true), [0, 1, 2, 3]);
        assert_eq!(some.staying(&[0, 1, 2, 3, 4], 0.01, true), [0, 1, 2]);
        assert_eq!(census(&[&[3]]).staying(&[0, 3], 0.1, true), [0, 3]);
    }

    #[test]
    fn an_output_that_two_codes_share_keeps_the_one_that_serves_more() {
        // Codes 1 and 2 take turns at the second output.
        let split = census(&[&[0, 1, 3], &[0, 2, 3], &[0, 2, 3]]);
        assert_eq!(split.staying(&[0, 1, 2, 3], 0.002, true), [0, 2, 3]);
        assert_eq!(split.staying(&[0, 1, 2, 3], 0.002, false), [0, 1, 2, 3], "readers may agree");
    }

    #[test]
    fn groups_of_images_with_codes_of_their_own_keep_one_for_each_output() {
        // Three outputs. For the second and third, half of the images have codes 1 and 4, the others 2 and 3.
        // Each code alone, 1 would give way to 2, and then 2 and 3 to 4.
        let mut census = Census::new(5);
        for _ in 0..100 {
            census.add(&[0.5, 0.1, 0.0, 0.0, 0.4]);
            census.add(&[0.5, 0.0, 0.25, 0.25, 0.0]);
        }
        assert_eq!(census.staying(&[0, 1, 2, 3, 4], 0.002, true), [0, 2, 4]);
        // The counts alone say so, too, without the image that had most.
        census.most = 0;
        assert_eq!(census.staying(&[0, 1, 2, 3, 4], 0.002, true), [0, 2, 4]);
    }

    #[test]
    fn outputs_that_only_some_images_have_keep_their_codes() {
        let nested = census(&[&[0], &[0, 1], &[0, 1, 2], &[0, 1, 2, 3]]);
        assert_eq!(nested.staying(&[0, 1, 2, 3], 0.002, true), [0, 1, 2, 3]);
    }

    #[test]
    fn a_split_is_seen_where_only_one_image_in_eight_has_the_output() {
        let common: &[usize] = &[0, 1];
        let images = [common, common, common, common, common, common, common, &[0, 1, 2]].repeat(2);
        let mut rare = census(&images[..15]);
        (0..100).for_each(|_| rare.add(&[0.4, 0.4, 0.0, 0.2, 0.0]));
        assert_eq!(rare.staying(&[0, 1, 2, 3], 0.002, true), [0, 1, 2]);
    }

    #[test]
    fn few_images_prove_nothing() {
        let mut few = Census::new(3);
        (0..6).for_each(|_| few.add(&[0.5, 0.5, 0.0, 0.5, 0.0, 0.5]));
        assert_eq!(few.staying(&[0, 1, 2], 0.002, true), [0, 1, 2]);
    }
}

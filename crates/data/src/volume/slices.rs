//! Which cases of a list are slices of one volume: those whose ids are `VOLUME/slice-0`, `VOLUME/slice-1` and so on.

use std::collections::BTreeMap;

use crate::CaseList;

/// A volume's slices in a list of cases.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeOf {
    /// What the slices' ids have in common.
    pub id: String,
    /// The places of its slices, by their number.
    pub slices: Vec<usize>,
}

/// The volume and the number that a slice's id states.
fn of_id(id: &str) -> Option<(&str, usize)> {
    let (volume, slice) = id.rsplit_once('/')?;
    let number = slice.strip_prefix("slice-")?;
    (number.bytes().all(|byte| byte.is_ascii_digit())).then_some((volume, number.parse().ok()?))
}

/// The volumes of at least two slices, in the order of their ids. Slices that are missing in between, or of another
/// size, divide a volume into parts, which are called by the numbers of their first slices.
pub fn volumes(cases: &CaseList) -> Vec<VolumeOf> {
    let mut by_volume: BTreeMap<&str, BTreeMap<usize, usize>> = BTreeMap::new();
    for at in 0..cases.len() {
        if let Some((volume, number)) = of_id(cases.id(at)) {
            by_volume.entry(volume).or_default().insert(number, at);
        }
    }
    let mut found = Vec::new();
    for (volume, slices) in by_volume {
        let mut parts: Vec<Vec<(usize, usize)>> = Vec::new();
        for (number, at) in slices {
            let follows = parts
                .last()
                .and_then(|part| part.last())
                .is_some_and(|&(before, last)| number == before + 1 && cases.size(last) == cases.size(at));
            if !follows {
                parts.push(Vec::new());
            }
            parts.last_mut().expect("one was just added").push((number, at));
        }
        let whole = parts.len() == 1;
        for part in parts.into_iter().filter(|part| part.len() > 1) {
            let id = if whole { volume.to_owned() } else { format!("{volume}/from-{}", part[0].0) };
            found.push(VolumeOf { id, slices: part.into_iter().map(|(_, at)| at).collect() });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Case, Image};

    #[test]
    fn slices_are_found_by_their_ids_and_gaps_divide_them() {
        let case = |(id, side): &(&str, usize)| Case {
            id: (*id).to_owned(),
            group: "g".into(),
            image: Image::new(*side, 4, 1, vec![0.0; 4 * side]),
            annotations: Vec::new(),
            truth: None,
        };
        let ids = [
            ("a/slice-10", 4),
            ("a/slice-9", 4),
            ("a/slice-11", 4),
            ("b/slice-000", 4),
            ("b/slice-001", 4),
            ("b/slice-003", 4),
            ("b/slice-004", 4),
            ("b/slice-005", 5),
            ("c/slice-0", 4),
            ("plain", 4),
            ("d/slice-x", 4),
            ("d/slice-", 4),
        ];
        let cases: CaseList = ids.iter().map(case).collect::<Vec<_>>().into();
        let found: Vec<(String, Vec<usize>)> =
            volumes(&cases).into_iter().map(|volume| (volume.id, volume.slices)).collect();
        let expected = [("a", vec![1, 0, 2]), ("b/from-0", vec![3, 4]), ("b/from-3", vec![5, 6])];
        assert_eq!(found, expected.map(|(id, slices)| (id.to_owned(), slices)));
    }
}

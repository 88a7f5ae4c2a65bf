//! Cases by number, wherever they are: in memory, or packed on disk and unpacked whenever they are asked for.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use crate::dataset::{Packed, Roster};
use crate::{Case, Result};

/// Most cases that [`CaseList::chunks`] puts together.
const TOGETHER: usize = 32;
/// Most bytes of their images, unless one image has more.
const TOGETHER_BYTES: u64 = 256 << 20;

/// An ordered list of cases. A copy shares the cases.
#[derive(Debug, Clone, Default)]
pub struct CaseList(Vec<Held>);

#[derive(Debug, Clone)]
enum Held {
    Memory(Arc<Case>),
    /// A file of cases, and the number of this one there.
    Disk(Arc<Packed>, usize),
}

impl CaseList {
    /// All cases of a file.
    pub(crate) fn of_packed(packed: &Arc<Packed>) -> Self {
        Self((0..packed.len()).map(|at| Held::Disk(packed.clone(), at)).collect())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether they are read from disk whenever they are asked for: all of a list are held in one way.
    pub fn is_on_disk(&self) -> bool {
        matches!(self.0.first(), Some(Held::Disk(..)))
    }

    /// One case. An error where the disk fails or the file was damaged.
    pub fn get(&self, at: usize) -> Result<Arc<Case>> {
        match &self.0[at] {
            Held::Memory(case) => Ok(case.clone()),
            Held::Disk(packed, at) => packed.case(*at).map(Arc::new),
        }
    }

    /// Several cases, in the order of their numbers.
    pub fn get_all(&self, numbers: impl IntoIterator<Item = usize>) -> Result<Vec<Arc<Case>>> {
        numbers.into_iter().map(|at| self.get(at)).collect()
    }

    /// A case's id; nothing is read.
    pub fn id(&self, at: usize) -> &str {
        match &self.0[at] {
            Held::Memory(case) => &case.id,
            Held::Disk(packed, at) => packed.id(*at),
        }
    }

    /// A case's group; nothing is read.
    pub fn group(&self, at: usize) -> &str {
        match &self.0[at] {
            Held::Memory(case) => &case.group,
            Held::Disk(packed, at) => packed.group(*at),
        }
    }

    /// Columns, rows and channels of a case's image; nothing is read.
    pub fn size(&self, at: usize) -> [usize; 3] {
        match &self.0[at] {
            Held::Memory(case) => [case.image.width(), case.image.height(), case.image.channels()],
            Held::Disk(packed, at) => packed.size(*at),
        }
    }

    /// All groups, in order.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|at| self.group(at))
    }

    /// The cases of these numbers, in their order.
    pub fn select(&self, numbers: impl IntoIterator<Item = usize>) -> Self {
        Self(numbers.into_iter().map(|at| self.0[at].clone()).collect())
    }

    /// All cases one after the other.
    pub fn iter(&self) -> impl Iterator<Item = Result<Arc<Case>>> {
        (0..self.len()).map(|at| self.get(at))
    }

    /// What `of` makes of each case, in parallel and in order. The first error in order, whatever the number of
    /// threads.
    pub fn map<T: Send, E: From<crate::Error> + Send>(
        &self,
        of: impl Fn(usize, Arc<Case>) -> std::result::Result<T, E> + Sync,
    ) -> std::result::Result<Vec<T>, E> {
        let all: Vec<std::result::Result<T, E>> = (0..self.len())
            .into_par_iter()
            .map(|at| self.get(at).map_err(E::from).and_then(|case| of(at, case)))
            .collect();
        all.into_iter().collect()
    }

    /// All cases in memory.
    pub fn to_vec(&self) -> Result<Vec<Case>> {
        self.map(|_, case| Ok(Arc::unwrap_or_clone(case)))
    }

    /// The numbers of neighbours whose images may be in memory together.
    pub fn chunks(&self) -> Vec<Range<usize>> {
        let mut chunks = Vec::new();
        let (mut start, mut bytes) = (0, 0);
        for at in 0..self.len() {
            let own =
                self.size(at).iter().map(|&side| side as u64).product::<u64>() * size_of::<f32>() as u64;
            if at > start && (at - start == TOGETHER || bytes + own > TOGETHER_BYTES) {
                chunks.push(start..at);
                (start, bytes) = (at, 0);
            }
            bytes += own;
        }
        if start < self.len() {
            chunks.push(start..self.len());
        }
        chunks
    }

    /// Ids, groups and the hash of all content, as splits need them; nothing is read.
    pub fn roster(&self) -> Roster {
        let members = self.0.par_iter().map(|held| match held {
            Held::Memory(case) => Roster::member(case),
            Held::Disk(packed, at) => packed.member(*at),
        });
        Roster::new(members.collect())
    }

    /// The same cases in another size. Those on disk get a file of their own beside the first one.
    pub fn resampled(&self, size: [usize; 2]) -> Result<Self> {
        let mut made: Vec<(Arc<Packed>, Arc<Packed>)> = Vec::new();
        for held in &self.0 {
            if let Held::Disk(packed, _) = held
                && !made.iter().any(|(from, _)| Arc::ptr_eq(from, packed))
            {
                made.push((packed.clone(), Arc::new(packed.resampled(size)?)));
            }
        }
        let resampled = self.0.par_iter().map(|held| match held {
            Held::Memory(case) => Held::Memory(Arc::new(case.resampled(size))),
            Held::Disk(packed, at) => {
                let (_, to) = made.iter().find(|(from, _)| Arc::ptr_eq(from, packed)).expect("made above");
                Held::Disk(to.clone(), *at)
            }
        });
        Ok(Self(resampled.collect()))
    }
}

impl From<Vec<Case>> for CaseList {
    fn from(cases: Vec<Case>) -> Self {
        Self(cases.into_iter().map(|case| Held::Memory(Arc::new(case))).collect())
    }
}

impl From<&[Case]> for CaseList {
    fn from(cases: &[Case]) -> Self {
        cases.to_vec().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Image;

    fn list(sizes: &[usize]) -> CaseList {
        let case = |(at, &side): (usize, &usize)| Case {
            id: format!("case-{at}"),
            group: "g".into(),
            image: Image::new(side, side, 1, vec![0.0; side * side]),
            annotations: Vec::new(),
            truth: None,
        };
        sizes.iter().enumerate().map(case).collect::<Vec<_>>().into()
    }

    #[test]
    fn chunks_are_bounded_in_number_and_bytes() {
        assert_eq!(list(&[]).chunks(), []);
        assert_eq!(list(&[4; 70]).chunks(), [0..32, 32..64, 64..70]);
        // 6000 x 6000 pixels are 137 MiB.
        assert_eq!(list(&[6000, 6000, 4, 4]).chunks(), [0..1, 1..4]);
    }

    #[test]
    fn the_first_fault_in_order_is_told() {
        let told = list(&[2; 9]).map(|at, _| match at {
            4 | 7 => Err(crate::Error::mismatch(at, "no")),
            _ => Ok(at),
        });
        assert!(told.unwrap_err().to_string().starts_with("4:"));
    }
}

//! Cases by number, wherever they are: in memory, or packed on disk and unpacked whenever they are asked for.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use crate::dataset::{Packed, Roster};
use crate::volume::slices::volumes;
use crate::{Case, Error, Grid, Image, Result};

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
    /// A slice with the ones before and after it as further channels: before, itself, after.
    Between(Box<[Held; 3]>),
}

impl Held {
    /// The case without its neighbours.
    fn own(&self) -> &Self {
        match self {
            Self::Between(three) => &three[1],
            alone => alone,
        }
    }

    fn get(&self) -> Result<Arc<Case>> {
        match self {
            Self::Memory(case) => Ok(case.clone()),
            Self::Disk(packed, at) => packed.case(*at).map(Arc::new),
            Self::Between(three) => {
                let [before, own, after] = [three[0].get()?, three[1].get()?, three[2].get()?];
                let image = Image::joined(&[&before.image, &own.image, &after.image]);
                Ok(Arc::new(Case { image, ..Arc::unwrap_or_clone(own) }))
            }
        }
    }

    fn size(&self) -> [usize; 3] {
        match self {
            Self::Memory(case) => [case.image.width(), case.image.height(), case.image.channels()],
            Self::Disk(packed, at) => packed.size(*at),
            Self::Between(three) => {
                let [width, height, channels] = three[1].size();
                [width, height, 3 * channels]
            }
        }
    }

    /// The files that it is read from.
    fn files(&self) -> Vec<&Arc<Packed>> {
        match self {
            Self::Memory(_) => Vec::new(),
            Self::Disk(packed, _) => vec![packed],
            Self::Between(three) => three.iter().flat_map(Held::files).collect(),
        }
    }

    fn resampled(&self, grid: Grid, made: &[(Arc<Packed>, Arc<Packed>)]) -> Self {
        match self {
            Self::Memory(case) => Self::Memory(Arc::new(case.resampled(grid))),
            Self::Disk(packed, at) => {
                let (_, to) = made.iter().find(|(from, _)| Arc::ptr_eq(from, packed)).expect("made above");
                Self::Disk(to.clone(), *at)
            }
            Self::Between(three) => {
                Self::Between(Box::new(three.each_ref().map(|one| one.resampled(grid, made))))
            }
        }
    }
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
        matches!(self.0.first().map(Held::own), Some(Held::Disk(..)))
    }

    /// One case. An error where the disk fails or the file was damaged.
    pub fn get(&self, at: usize) -> Result<Arc<Case>> {
        self.0[at].get()
    }

    /// Several cases, in the order of their numbers.
    pub fn get_all(&self, numbers: impl IntoIterator<Item = usize>) -> Result<Vec<Arc<Case>>> {
        numbers.into_iter().map(|at| self.get(at)).collect()
    }

    /// The ids of all cases, in order; nothing is read.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|at| self.id(at))
    }

    /// A case's id; nothing is read.
    pub fn id(&self, at: usize) -> &str {
        match self.0[at].own() {
            Held::Memory(case) => &case.id,
            Held::Disk(packed, at) => packed.id(*at),
            Held::Between(_) => unreachable!("a slice is no neighbourhood itself"),
        }
    }

    /// A case's group; nothing is read.
    pub fn group(&self, at: usize) -> &str {
        match self.0[at].own() {
            Held::Memory(case) => &case.group,
            Held::Disk(packed, at) => packed.group(*at),
            Held::Between(_) => unreachable!("a slice is no neighbourhood itself"),
        }
    }

    /// Columns, rows and channels of a case's image; nothing is read.
    pub fn size(&self, at: usize) -> [usize; 3] {
        self.0[at].size()
    }

    /// The same cases, each slice of a volume with its neighbours as further channels: the one before, itself, the one
    /// after. At either end, and of an image that is no slice, the image itself stands for the neighbour that is
    /// missing. Ids, groups and the hash stay. An error where images have several channels already.
    pub fn with_neighbours(&self) -> Result<Self> {
        if let Some(at) = (0..self.len()).find(|&at| self.size(at)[2] != 1) {
            let (id, channels) = (self.id(at), self.size(at)[2]);
            return Err(Error::mismatch(
                "data.context",
                format!(
                    "'{id}' has {channels} channels; neighbouring slices are for images of one, so set it to 0"
                ),
            ));
        }
        let mut neighbours: Vec<[usize; 2]> = (0..self.len()).map(|at| [at, at]).collect();
        for volume in volumes(self) {
            for pair in volume.slices.windows(2) {
                neighbours[pair[0]][1] = pair[1];
                neighbours[pair[1]][0] = pair[0];
            }
        }
        let with = |(at, [before, after]): (usize, [usize; 2])| {
            Held::Between(Box::new([before, at, after].map(|at| self.0[at].clone())))
        };
        Ok(Self(neighbours.into_iter().enumerate().map(with).collect()))
    }

    /// The same cases without their neighbours, where they have them.
    pub fn without_neighbours(&self) -> Self {
        Self(self.0.iter().map(|held| held.own().clone()).collect())
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
    pub fn map<T: Send, E: From<Error> + Send>(
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
        let members = self.0.par_iter().map(|held| match held.own() {
            Held::Memory(case) => Roster::member(case),
            Held::Disk(packed, at) => packed.member(*at),
            Held::Between(_) => unreachable!("a slice is no neighbourhood itself"),
        });
        Roster::new(members.collect())
    }

    /// The same cases on another grid. Those on disk get a file of their own beside the first one.
    pub fn resampled(&self, grid: Grid) -> Result<Self> {
        let mut made: Vec<(Arc<Packed>, Arc<Packed>)> = Vec::new();
        for packed in self.0.iter().flat_map(Held::files) {
            if !made.iter().any(|(from, _)| Arc::ptr_eq(from, packed)) {
                made.push((packed.clone(), Arc::new(packed.resampled(grid)?)));
            }
        }
        Ok(Self(self.0.par_iter().map(|held| held.resampled(grid, &made)).collect()))
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
        assert!(list(&[]).chunks().is_empty());
        assert_eq!(list(&[4; 70]).chunks(), [0..32, 32..64, 64..70]);
        // 6000 x 6000 pixels are 137 MiB.
        assert_eq!(list(&[6000, 6000, 4, 4]).chunks(), [0..1, 1..4]);
    }

    #[test]
    fn slices_have_their_neighbours_and_edges_repeat() {
        let case = |(at, id): (usize, &&str)| Case {
            id: (*id).to_owned(),
            group: "g".into(),
            image: Image::new(1, 1, 1, vec![at as f32]),
            annotations: Vec::new(),
            truth: None,
        };
        let ids = ["v/slice-1", "plain", "v/slice-0", "v/slice-2", "v/slice-4"];
        let alone: CaseList = ids.iter().enumerate().map(case).collect::<Vec<_>>().into();
        let joined = alone.with_neighbours().unwrap();
        let pixels = |at: usize| joined.get(at).unwrap().image.pixels().to_vec();
        assert_eq!(
            [0, 1, 2, 3, 4].map(pixels),
            [[2.0, 0.0, 3.0], [1.0; 3], [2.0, 2.0, 0.0], [0.0, 3.0, 3.0], [4.0; 3]]
        );
        assert_eq!(joined.size(0), [1, 1, 3]);
        assert_eq!((joined.id(0), joined.roster().hash()), ("v/slice-1", alone.roster().hash()));
        assert_eq!(joined.resampled(Grid::Size([2, 2])).unwrap().get(0).unwrap().image.pixels().len(), 12);
        assert_eq!(joined.without_neighbours().get(3).unwrap(), alone.get(3).unwrap());
        assert!(joined.with_neighbours().unwrap_err().to_string().contains("data.context"));
    }

    #[test]
    fn the_first_fault_in_order_is_told() {
        let told = list(&[2; 9]).map(|at, _| match at {
            4 | 7 => Err(Error::mismatch(at, "no")),
            _ => Ok(at),
        });
        assert!(told.unwrap_err().to_string().starts_with("4:"));
    }
}

//! The part of rayon's interface that is used here, one item after the other.
//!
//! WebAssembly has no threads here, where rayon works as well but brings its scheduler and a copy of it for every loop:
//! a tenth of the viewer's module. The other crates know this one by the name `rayon` on that target.

/// What `use rayon::prelude::*` brings: iterators of the standard library under rayon's names.
pub mod prelude {
    use std::slice::{Chunks, ChunksExact, ChunksExactMut, ChunksMut, Iter, IterMut};

    /// `into_par_iter`.
    pub trait IntoParallelIterator: IntoIterator + Sized {
        /// The items by value.
        fn into_par_iter(self) -> Self::IntoIter {
            self.into_iter()
        }
    }

    impl<T: IntoIterator> IntoParallelIterator for T {}

    /// `par_iter` and `par_chunks`.
    pub trait ParallelSlice<T> {
        /// The items.
        fn par_iter(&self) -> Iter<'_, T>;
        /// Pieces of so many items.
        fn par_chunks(&self, size: usize) -> Chunks<'_, T>;
        /// Pieces of exactly so many items.
        fn par_chunks_exact(&self, size: usize) -> ChunksExact<'_, T>;
    }

    impl<T> ParallelSlice<T> for [T] {
        fn par_iter(&self) -> Iter<'_, T> {
            self.iter()
        }

        fn par_chunks(&self, size: usize) -> Chunks<'_, T> {
            self.chunks(size)
        }

        fn par_chunks_exact(&self, size: usize) -> ChunksExact<'_, T> {
            self.chunks_exact(size)
        }
    }

    /// The same, to be changed.
    pub trait ParallelSliceMut<T> {
        /// The items.
        fn par_iter_mut(&mut self) -> IterMut<'_, T>;
        /// Pieces of so many items.
        fn par_chunks_mut(&mut self, size: usize) -> ChunksMut<'_, T>;
        /// Pieces of exactly so many items.
        fn par_chunks_exact_mut(&mut self, size: usize) -> ChunksExactMut<'_, T>;
    }

    impl<T> ParallelSliceMut<T> for [T] {
        fn par_iter_mut(&mut self) -> IterMut<'_, T> {
            self.iter_mut()
        }

        fn par_chunks_mut(&mut self, size: usize) -> ChunksMut<'_, T> {
            self.chunks_mut(size)
        }

        fn par_chunks_exact_mut(&mut self, size: usize) -> ChunksExactMut<'_, T> {
            self.chunks_exact_mut(size)
        }
    }

    /// Names that the standard library's iterators have not.
    pub trait ParallelIterator: Iterator + Sized {
        /// `flat_map`.
        fn flat_map_iter<U: IntoIterator, F: FnMut(Self::Item) -> U>(
            self,
            map: F,
        ) -> impl Iterator<Item = U::Item> {
            self.flat_map(map)
        }

        /// `reduce`.
        fn reduce_with<F: FnMut(Self::Item, Self::Item) -> Self::Item>(self, join: F) -> Option<Self::Item> {
            self.reduce(join)
        }

        /// `find_map`.
        fn find_map_any<R, F: FnMut(Self::Item) -> Option<R>>(mut self, map: F) -> Option<R> {
            self.find_map(map)
        }
    }

    impl<I: Iterator> ParallelIterator for I {}
}

/// How many threads there are.
pub fn current_num_threads() -> usize {
    1
}

/// What rayon hands to a scope: nothing can be spawned.
#[derive(Debug)]
pub struct Scope;

/// Runs it.
pub fn scope<R>(act: impl FnOnce(&Scope) -> R) -> R {
    act(&Scope)
}

#[cfg(test)]
mod tests {
    use super::prelude::*;

    #[test]
    fn loops_do_what_rayon_s_do() {
        let mut values = [1, 2, 3, 4, 5];
        values
            .par_chunks_mut(2)
            .enumerate()
            .for_each(|(at, part)| part.iter_mut().for_each(|one| *one += at));
        assert_eq!(values, [1, 2, 4, 5, 7]);
        values.par_iter_mut().for_each(|one| *one *= 2);
        let pairs: Vec<usize> = values.par_iter().flat_map_iter(|&one| [one, one]).collect();
        assert_eq!(pairs, [2, 2, 4, 4, 8, 8, 10, 10, 14, 14]);
        assert_eq!((0..9).into_par_iter().find_map_any(|one| (one > 3).then_some(one)), Some(4));
        assert_eq!(values.par_iter().copied().reduce_with(usize::max), Some(14));
        assert_eq!(values.par_chunks_exact(2).map(<[usize]>::len).sum::<usize>(), 4);
        assert_eq!(super::scope(|_| super::current_num_threads()), 1);
    }
}

//! Whether two files cover the same pixels and the same place.

use std::path::Path;

use crate::import::{Samples, Size};
use crate::{Error, Geometry, Result};

/// A file, and the pixels and the place that it covers.
#[derive(Clone, Copy)]
pub(super) struct Space<'a> {
    pub path: &'a Path,
    pub size: Size,
    pub geometry: Option<&'a Geometry>,
}

impl<'a> Space<'a> {
    pub fn of(path: &'a Path, samples: &'a Samples) -> Self {
        Self { path, size: samples.size, geometry: samples.geometry.as_ref() }
    }
}

/// Refuses a file that does not cover the same pixels, and the same place, as the image.
pub(super) fn same_space(file: Space, image: Space) -> Result<()> {
    let (path, image_path) = (file.path, image.path);
    let [size, wanted] = [file.size, image.size];
    if (size.width, size.height, size.depth) != (wanted.width, wanted.height, wanted.depth) {
        return Err(Error::file(
            path,
            format!("is {size}, but its image {} is {wanted}; resample one of them", image_path.display()),
        ));
    }
    let (Some(geometry), Some(other)) = (file.geometry, image.geometry) else { return Ok(()) };
    let distance = largest_shift(geometry, other, [wanted.width, wanted.height, wanted.depth]);
    let voxel = other.spacing.into_iter().fold(f32::INFINITY, f32::min);
    // Writers round differently; a tenth of a voxel is no other place.
    if distance > 0.1 * voxel {
        return Err(Error::file(
            path,
            format!(
                "lies up to {distance} (in its unit of length) away from its image {}; resample it onto the image",
                image_path.display()
            ),
        ));
    }
    Ok(())
}

/// How far apart two geometries put the origin and the ends of the three axes.
fn largest_shift(a: &Geometry, b: &Geometry, size: [usize; 3]) -> f32 {
    let (Some(a), Some(b)) = (a.affine, b.affine) else { return 0.0 };
    let ends = [[0, 0, 0], [size[0] - 1, 0, 0], [0, size[1] - 1, 0], [0, 0, size[2] - 1]];
    let distance = |voxel: [usize; 3]| {
        let squares = (0..3).map(|row| {
            let difference: f32 = (0..3).map(|axis| (a[row][axis] - b[row][axis]) * voxel[axis] as f32).sum();
            (difference + a[row][3] - b[row][3]).powi(2)
        });
        squares.sum::<f32>().sqrt()
    };
    ends.into_iter().map(distance).fold(0.0, f32::max)
}

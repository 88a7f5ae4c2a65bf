//! What two tensors must have in common to count as equal.

/// Fails unless every value is within `tolerance` of the reference, relative to the reference's
/// largest magnitude (a value near zero among large ones is a difference of large ones, and cannot be
/// better than they are); references all below `smallest` are measured against that.
pub fn assert_close(what: &str, found: &[f32], reference: &[f64], tolerance: f64, smallest: f64) {
    assert_eq!(found.len(), reference.len(), "{what}: another number of values");
    let largest = reference.iter().fold(smallest, |largest, value| value.abs().max(largest));
    for (i, (&found, &reference)) in found.iter().zip(reference).enumerate() {
        let error = (f64::from(found) - reference).abs() / largest;
        assert!(
            error <= tolerance,
            "{what}: value {i} is {found}, not {reference}: off by {error:.2e} of {largest}"
        );
    }
}

//! The matrices of F(4x4, 3x3) applied to vectors, in one dimension; applied to columns and then to rows they are
//! those of two. With `p = a²` and `q = b²`:
//!
//! ```text
//!      | pq   0  −p−q    0   1  0 |       | 1/pq   0    0  |         | 1   1   1   1   1  0 |
//!      |  0 −aq   −q     a   1  0 |       | 1/m   a/m  p/m |    Aᵀ = | 0   a  −a   b  −b  0 |
//! Bᵀ = |  0  aq   −q    −a   1  0 |   G = | 1/m  −a/m  p/m |         | 0   p   p   q   q  0 |
//!      |  0 −bp   −p     b   1  0 |       | 1/n   b/n  q/n |         | 0   a³ −a³  b³ −b³ 1 |
//!      |  0  bp   −p    −b   1  0 |       | 1/n  −b/n  q/n |
//!      |  0  pq    0  −p−q   0  1 |       |  0     0    1  |         m = 2p(p − q), n = 2q(q − p)
//! ```

use crate::cpu::simd::Simd;

/// The points of interpolation are 0, ±a, ±b and infinity. These, whose powers are exact, leave a third of the
/// rounding error of the usual ±1 and ±2: about three times that of F(2x2, 3x3).
const A: f32 = 0.625;
const B: f32 = 1.5;
const P: f32 = A * A;
const Q: f32 = B * B;
const M: f32 = 2.0 * P * (P - Q);
const N: f32 = 2.0 * Q * (Q - P);

/// Two rows of `Bᵀ`, of the input: 0 and 5, 1 and 2, or 3 and 4, which share their terms.
#[inline(always)]
fn input_pair<S: Simd, const PAIR: usize>(s: S, d: [S::V; 6]) -> [S::V; 2] {
    if PAIR == 0 {
        let (product, minus_sum) = (s.splat(P * Q), s.splat(-P - Q));
        return [
            s.fma(product, d[0], s.fma(minus_sum, d[2], d[4])),
            s.fma(product, d[1], s.fma(minus_sum, d[3], d[5])),
        ];
    }
    let (point, other) = if PAIR == 1 { (A, s.splat(-Q)) } else { (B, s.splat(-P)) };
    let (even, odd) = (s.fma(other, d[2], d[4]), s.fma(other, d[1], d[3]));
    [s.fma(s.splat(point), odd, even), s.fma(s.splat(-point), odd, even)]
}

/// A transform to the six positions of a tile. (A trait, since closures given to a kernel's functions may be compiled
/// without its instructions.)
pub(super) trait Transform<const N: usize>: Copy {
    fn of<S: Simd>(self, s: S, values: [S::V; N]) -> [S::V; 6];
}

/// `Bᵀ`, of the input.
#[derive(Clone, Copy)]
pub(super) struct Input;

impl Transform<6> for Input {
    #[inline(always)]
    fn of<S: Simd>(self, s: S, d: [S::V; 6]) -> [S::V; 6] {
        let ([d0, d5], [d1, d2]) = (input_pair::<S, 0>(s, d), input_pair::<S, 1>(s, d));
        let [d3, d4] = input_pair::<S, 2>(s, d);
        [d0, d1, d2, d3, d4, d5]
    }
}

/// `A`, of the output's gradient.
#[derive(Clone, Copy)]
pub(super) struct Gradient;

impl Transform<4> for Gradient {
    #[inline(always)]
    fn of<S: Simd>(self, s: S, y: [S::V; 4]) -> [S::V; 6] {
        let ([y0, y5], [y1, y2]) = (gradient_pair::<S, 0>(s, y), gradient_pair::<S, 1>(s, y));
        let [y3, y4] = gradient_pair::<S, 2>(s, y);
        [y0, y1, y2, y3, y4, y5]
    }
}

/// `Aᵀ`, of the products.
#[inline(always)]
pub(super) fn output<S: Simd>(s: S, m: [S::V; 6]) -> [S::V; 4] {
    let (sum_a, sum_b) = (s.add(m[1], m[2]), s.add(m[3], m[4]));
    let (difference_a, difference_b) = (s.sub(m[1], m[2]), s.sub(m[3], m[4]));
    [
        s.add(m[0], s.add(sum_a, sum_b)),
        s.fma(s.splat(A), difference_a, s.mul(s.splat(B), difference_b)),
        s.fma(s.splat(P), sum_a, s.mul(s.splat(Q), sum_b)),
        s.fma(s.splat(A * P), difference_a, s.fma(s.splat(B * Q), difference_b, m[5])),
    ]
}

/// Two rows of `A`, of the output's gradient, paired as those of [`input_pair`].
#[inline(always)]
fn gradient_pair<S: Simd, const PAIR: usize>(s: S, y: [S::V; 4]) -> [S::V; 2] {
    if PAIR == 0 {
        return [y[0], y[3]];
    }
    let (point, square) = if PAIR == 1 { (A, s.splat(P)) } else { (B, s.splat(Q)) };
    let (even, odd) = (s.fma(square, y[2], y[0]), s.fma(square, y[3], y[1]));
    [s.fma(s.splat(point), odd, even), s.fma(s.splat(-point), odd, even)]
}

/// `G`: of the weights.
#[inline(always)]
pub(super) fn weights<S: Simd>(s: S, g: [S::V; 3]) -> [S::V; 6] {
    let even_a = s.fma(s.splat(P / M), g[2], s.mul(s.splat(1.0 / M), g[0]));
    let even_b = s.fma(s.splat(Q / N), g[2], s.mul(s.splat(1.0 / N), g[0]));
    [
        s.mul(s.splat(1.0 / (P * Q)), g[0]),
        s.fma(s.splat(A / M), g[1], even_a),
        s.fma(s.splat(-A / M), g[1], even_a),
        s.fma(s.splat(B / N), g[1], even_b),
        s.fma(s.splat(-B / N), g[1], even_b),
        g[2],
    ]
}

/// `Gᵀ`: of the sums of a weight gradient.
#[inline(always)]
pub(super) fn weight_gradient<S: Simd>(s: S, m: [S::V; 6]) -> [S::V; 3] {
    let (sum_a, sum_b) = (s.add(m[1], m[2]), s.add(m[3], m[4]));
    let (difference_a, difference_b) = (s.sub(m[1], m[2]), s.sub(m[3], m[4]));
    let both = s.fma(s.splat(1.0 / M), sum_a, s.mul(s.splat(1.0 / N), sum_b));
    [
        s.fma(s.splat(1.0 / (P * Q)), m[0], both),
        s.fma(s.splat(A / M), difference_a, s.mul(s.splat(B / N), difference_b)),
        s.fma(s.splat(P / M), sum_a, s.fma(s.splat(Q / N), sum_b, m[5])),
    ]
}

/// `|Gᵀ|`: how large the terms of [`weight_gradient`] are, from how large the sums are.
#[inline(always)]
pub(super) fn weight_gradient_size<S: Simd>(s: S, m: [S::V; 6]) -> [S::V; 3] {
    let (a, b) = (s.add(m[1], m[2]), s.add(m[3], m[4]));
    let (a, b) = (s.mul(s.splat(M.abs().recip()), a), s.mul(s.splat(N.abs().recip()), b));
    [
        s.fma(s.splat(1.0 / (P * Q)), m[0], s.add(a, b)),
        s.fma(s.splat(A), a, s.mul(s.splat(B), b)),
        s.fma(s.splat(P), a, s.fma(s.splat(Q), b, m[5])),
    ]
}

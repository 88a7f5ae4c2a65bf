//! Exponential and logarithm as straight-line arithmetic that the compiler turns into vectors;
//! accurate to about two units in the last place.

/// eˣ: 2ⁿ times a polynomial on the rest, |rest| ≤ ln2/2. Saturates to 0 and infinity; NaN stays NaN.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Adding and taking away 1.5·2²³ rounds to the nearest whole number.
    const ROUND: f32 = 12_582_912.0;
    let clamped = x.clamp(-103.0, 89.0);
    let rounded = clamped * std::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = clamped - n * LN2_HIGH - n * LN2_LOW;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let e = p * r * r + r + 1.0;
    // n stands in the last bits of what was rounded; a cast would ask every value for its bounds, one by one. Of a NaN
    // any number comes out, and e is NaN.
    let n = (rounded.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    // Two factors, so that neither exponent leaves its field (n reaches 128 and -149).
    let half = n >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) << 23) as u32);
    let result = e * power(half) * power(n.wrapping_sub(half));
    if x > 88.722_84 { f32::INFINITY } else { result }
}

/// ln x: exponent and a polynomial on a mantissa in [√½, √2); NaN for NaN and negative x.
#[inline(always)]
pub(crate) fn ln(x: f32) -> f32 {
    let bits = x.to_bits() as i32;
    // Moves mantissas of √2 and above to the next exponent. NaNs and negative numbers may wrap around; what
    // comes of them is replaced at the end.
    let shifted = bits.wrapping_add(0x3f80_0000 - 0x3f35_04f3);
    let n = ((shifted >> 23) - 127) as f32;
    let mantissa = bits.wrapping_sub(shifted & !0x007f_ffff).wrapping_add(0x3f80_0000);
    let m = f32::from_bits(mantissa as u32) - 1.0;
    let p = 7.037_683_6e-2;
    let p = p * m - 1.151_461e-1;
    let p = p * m + 1.167_699_9e-1;
    let p = p * m - 1.242_014_1e-1;
    let p = p * m + 1.424_932_3e-1;
    let p = p * m - 1.666_805_8e-1;
    let p = p * m + 2.000_071_5e-1;
    let p = p * m - 2.499_999_4e-1;
    let p = p * m + 3.333_333e-1;
    let square = m * m;
    let result = (p * m * square + n * -2.121_944_4e-4) - 0.5 * square + m + n * 0.693_359_4;
    if x == 0.0 {
        f32::NEG_INFINITY
    } else if x < 0.0 || x.is_nan() {
        f32::NAN
    } else if x == f32::INFINITY {
        x
    } else {
        result
    }
}

/// 1 / (1 + e⁻ˣ), without overflow.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// ln(1 + eˣ), without overflow.
#[inline(always)]
pub(crate) fn softplus(x: f32) -> f32 {
    let tail = exp(-x.abs());
    let positive = if x > 0.0 { x } else { x.min(0.0) * 0.0 };
    positive + ln(1.0 + tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_and_ln_follow_the_library() {
        for i in -8800..8870 {
            let x = i as f32 * 0.01;
            let exact = f64::from(x).exp();
            assert!((f64::from(exp(x)) - exact).abs() <= 3e-7 * exact, "exp({x}) = {} not {exact}", exp(x));
            let y = (i as f32 * 0.01).exp2().max(1e-30);
            let exact = f64::from(y).ln();
            assert!(
                (f64::from(ln(y)) - exact).abs() <= 3e-7 * exact.abs().max(1e-6),
                "ln({y}) = {} not {exact}",
                ln(y)
            );
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(200.0), f32::INFINITY);
        assert!(exp(-200.0) <= 2e-45);
        assert!(exp(f32::NAN).is_nan() && ln(-1.0).is_nan() && ln(f32::NAN).is_nan());
        assert_eq!(ln(0.0), f32::NEG_INFINITY);
        for bits in
            [0x7f80_0001, 0x7fc0_0000, 0x7fff_ffff, 0xff80_0000, 0xff80_0001, 0xffff_ffff, 0x8000_0001u32]
        {
            assert!(ln(f32::from_bits(bits)).is_nan(), "ln of {bits:#x}");
        }
    }

    #[test]
    fn softplus_and_sigmoid_keep_their_tails() {
        for x in [-90.0f32, -20.0, -1.0, 0.0, 1.0, 20.0, 90.0] {
            let exact = f64::from(x).exp().ln_1p();
            assert!((f64::from(softplus(x)) - exact).abs() <= 1e-6 * exact.max(0.1), "softplus({x})");
            let exact = 1.0 / (1.0 + (-f64::from(x)).exp());
            assert!((f64::from(sigmoid(x)) - exact).abs() <= 1e-6, "sigmoid({x})");
        }
        assert!(softplus(f32::NAN).is_nan());
    }
}

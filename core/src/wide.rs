//! Division of products with more than 64 bits.

use crate::full::FULL;

/// Rounded down.
#[inline]
pub(crate) fn div(number: u128, by: u128) -> u128 {
    if FULL { number / by } else { by_steps(number, by) }
}

/// Rounded up.
#[inline]
pub(crate) fn div_ceil(number: u128, by: u128) -> u128 {
    if FULL {
        return number.div_ceil(by);
    }
    let down = by_steps(number, by);
    down + u128::from(down * by < number)
}

/// The same bit by bit, which is slow and small: the platform's division would cost a page 900 bytes. Numbers of 64
/// bits, nearly all of them, are divided at once. The divisor is below 2^127, and not zero.
#[inline(never)]
fn by_steps(number: u128, by: u128) -> u128 {
    if let (Ok(number), Ok(by)) = (u64::try_from(number), u64::try_from(by)) {
        return u128::from(number / by);
    }
    // The number's bits leave at the top as the quotient's bits enter at the bottom.
    let (mut bits, mut rest) = (number, 0);
    for _ in 0..128 {
        rest = rest << 1 | bits >> 127;
        bits <<= 1;
        if rest >= by {
            rest -= by;
            bits |= 1;
        }
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn steps_divide_as_the_platform_does(number: u128, by: u128, fewer in 0_u32..128, less in 1_u32..128) {
            let (number, by) = (number >> fewer, (by >> less).max(1));
            prop_assert_eq!(by_steps(number, by), number / by);
            prop_assert_eq!(by_steps(number, u128::MAX >> 1), number / (u128::MAX >> 1));
        }
    }
}

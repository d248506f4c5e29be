//! Division of products with more than 64 bits.

pub(crate) use crate::full::{div, div_ceil};

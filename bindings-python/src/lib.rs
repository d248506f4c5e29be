//! Native half of the Python package: conversions and nothing else.

//! Parts on their own.

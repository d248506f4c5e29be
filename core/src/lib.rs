//! The Tidegate engine.

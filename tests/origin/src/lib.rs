//! Scriptable faulty origin.

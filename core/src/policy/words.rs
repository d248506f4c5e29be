//! Converts words of settings into types.

use super::check::Settings;
use super::{OnLoss, Unit};
use crate::window::WindowKind;

impl Settings {
    /// The first of two keys if it is given, else the second.
    pub(super) fn or(&self, path: &'static str, other: &'static str) -> &'static str {
        if self.given(path) { path } else { other }
    }

    pub(super) fn in_fleet(&self, path: &str) -> bool {
        self.word(path) == "fleet"
    }

    pub(super) fn on_loss(&self, path: &str) -> OnLoss {
        match self.word(path) {
            "open" => OnLoss::Open,
            "closed" => OnLoss::Closed,
            _ => OnLoss::Local,
        }
    }

    pub(super) fn unit(&self, path: &str) -> Unit {
        if self.word(path) == "attempt" { Unit::Attempt } else { Unit::Call }
    }

    pub(super) fn window_kind(&self, path: &str) -> WindowKind {
        if self.word(path) == "tumbling" { WindowKind::Tumbling } else { WindowKind::Sliding }
    }
}

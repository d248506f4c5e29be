//! Tables of figures: the published one, the lab's, and how far apart they may be.

use std::fmt;

/// One figure of a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figure {
    /// The lab's figure.
    pub ours: f64,
    /// The expectation; `None` for a figure that is only shown.
    pub expected: Option<Expected>,
}

/// What a figure must be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Expected {
    /// Close to a published figure, with this absolute tolerance.
    About(f64, f64),
    /// At most.
    AtMost(f64),
    /// At least.
    AtLeast(f64),
}

impl Figure {
    /// A figure that is only shown.
    pub const fn shown(ours: f64) -> Self {
        Self { ours, expected: None }
    }

    /// A figure that was published.
    pub const fn about(ours: f64, published: f64, tolerance: f64) -> Self {
        Self { ours, expected: Some(Expected::About(published, tolerance)) }
    }

    /// A figure with an upper bound.
    pub const fn at_most(ours: f64, bound: f64) -> Self {
        Self { ours, expected: Some(Expected::AtMost(bound)) }
    }

    /// A figure with a lower bound.
    pub const fn at_least(ours: f64, bound: f64) -> Self {
        Self { ours, expected: Some(Expected::AtLeast(bound)) }
    }

    /// Whether the figure meets the expectation.
    pub fn holds(&self) -> bool {
        match self.expected {
            None => true,
            Some(Expected::About(published, tolerance)) => (self.ours - published).abs() <= tolerance,
            Some(Expected::AtMost(bound)) => self.ours <= bound,
            Some(Expected::AtLeast(bound)) => self.ours >= bound,
        }
    }
}

/// Writes a number with at most four decimals and without trailing zeros; a dash if there is none.
fn number(value: f64) -> String {
    if value.is_nan() {
        return "–".into();
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.holds() { "" } else { " **FAILS**" };
        let ours = number(self.ours);
        match self.expected {
            None => write!(f, "{ours}"),
            Some(Expected::About(published, tolerance)) => {
                write!(f, "{ours} ({} ± {}){mark}", number(published), number(tolerance))
            }
            Some(Expected::AtMost(bound)) => write!(f, "{ours} (≤ {}){mark}", number(bound)),
            Some(Expected::AtLeast(bound)) => write!(f, "{ours} (≥ {}){mark}", number(bound)),
        }
    }
}

/// A table of one experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// A sentence that says what the table shows.
    pub title: String,
    /// Names of the columns; the first is the rows' label.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<(String, Vec<Figure>)>,
}

impl Table {
    /// A table without rows.
    pub fn new(title: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        Self { title: title.to_owned(), columns, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, label: impl Into<String>, figures: Vec<Figure>) {
        self.rows.push((label.into(), figures));
    }

    /// Describes the rows with a figure that does not meet its expectation.
    pub fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for (label, figures) in &self.rows {
            for (figure, column) in figures.iter().zip(self.columns.iter().skip(1)) {
                if !figure.holds() {
                    failures.push(format!("{}: {label}: {column}: {figure}", self.title));
                }
            }
        }
        failures
    }

    /// Fails a test with all figures that do not meet their expectations.
    ///
    /// # Panics
    /// If a figure is outside its bounds.
    pub fn check(&self) {
        let failures = self.failures();
        assert!(failures.is_empty(), "{}\n\n{self}", failures.join("\n"));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.title)?;
        writeln!(f, "| {} |", self.columns.join(" | "))?;
        writeln!(f, "|{}", "---|".repeat(self.columns.len()))?;
        for (label, figures) in &self.rows {
            let figures: Vec<_> = figures.iter().map(Figure::to_string).collect();
            writeln!(f, "| {label} | {} |", figures.join(" | "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_outside_its_bounds_is_named() {
        let mut table = Table::new("T", &["case", "a", "b", "c", "d"]);
        let good = vec![
            Figure::shown(1.0),
            Figure::about(1.0, 1.1, 0.2),
            Figure::at_most(1.0, 1.0),
            Figure::at_least(1.0, 1.0),
        ];
        let bad = vec![
            Figure::shown(1.0),
            Figure::about(1.0, 1.3, 0.2),
            Figure::at_most(1.1, 1.0),
            Figure::at_least(0.9, 1.0),
        ];
        table.row("good", good);
        assert_eq!(table.failures(), Vec::<String>::new());
        table.row("bad", bad);
        assert_eq!(table.failures().len(), 3);
        assert_eq!(table.failures()[0], "T: bad: b: 1 (1.3 ± 0.2) **FAILS**");
    }
}

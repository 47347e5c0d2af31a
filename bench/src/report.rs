//! What a benchmark found: tables for people, the same figures for machines, and the limits that they are compared with.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Color, Table};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::machine::Machine;

/// Where the figures go.
#[derive(clap::Args)]
pub(crate) struct Output {
    /// Write the figures as JSON to this file, too
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Exit with code 1 if a figure misses the project's limit
    #[arg(long, global = true)]
    check: bool,
}

/// A figure and the most that it may be.
#[derive(Clone, Serialize)]
pub(crate) struct Judged {
    /// What the figure is of, for the list of missed limits.
    what: String,
    /// None: it could not be measured, which does not keep the limit.
    value: Option<f64>,
    limit: f64,
    kept: bool,
}

/// Everything that one subcommand found.
pub(crate) struct Report {
    command: &'static str,
    tables: Vec<(String, Table)>,
    notes: Vec<String>,
    figures: Map<String, Value>,
    judged: Vec<Judged>,
    failures: Vec<String>,
}

impl Report {
    pub(crate) fn new(command: &'static str) -> Self {
        Self {
            command,
            tables: Vec::new(),
            notes: Vec::new(),
            figures: Map::new(),
            judged: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Adds rows to the machines' part, under `name`.
    pub(crate) fn add_rows(&mut self, name: &str, rows: &impl Serialize) -> anyhow::Result<()> {
        self.figures.insert(name.to_owned(), serde_json::to_value(rows)?);
        Ok(())
    }

    /// Adds a table to the people's part.
    pub(crate) fn add_table(&mut self, title: impl Into<String>, table: Table) {
        self.tables.push((title.into(), table));
    }

    /// Adds a sentence that is printed below the tables.
    pub(crate) fn add_note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Adds something that could not be measured at all: the rest is reported, and the exit code is 1.
    pub(crate) fn add_failure(&mut self, failure: impl Into<String>) {
        self.failures.push(failure.into());
    }

    /// Compares a figure with its limit.
    pub(crate) fn judge(&mut self, what: impl Into<String>, value: impl Into<Option<f64>>, limit: f64) {
        let value = value.into();
        self.judged.push(Judged { what: what.into(), value, limit, kept: value.is_some_and(|value| value <= limit) });
    }

    /// Prints, writes and checks.
    pub(crate) fn publish(self, output: &Output) -> anyhow::Result<ExitCode> {
        for (title, table) in &self.tables {
            println!("{title}\n{table}\n");
        }
        for note in &self.notes {
            println!("{note}");
        }
        for failure in &self.failures {
            println!("failed: {failure}");
        }
        let missed: Vec<&Judged> = self.judged.iter().filter(|judged| !judged.kept).collect();
        if !self.judged.is_empty() {
            println!("{} of {} limits kept", self.judged.len() - missed.len(), self.judged.len());
        }
        for Judged { what, value, limit, .. } in &missed {
            let value = value.map_or_else(|| "not measured".to_owned(), |value| format!("{value:.3}"));
            println!("  missed: {what}: {value}, limit {limit}");
        }
        if let Some(file) = &output.json {
            let whole = json!({
                "command": self.command,
                "version": env!("CARGO_PKG_VERSION"),
                "machine": Machine::this(),
                "notes": self.notes,
                "failures": self.failures,
                "limits": self.judged,
                "figures": self.figures,
            });
            fs::write(file, format!("{whole:#}\n")).with_context(|| format!("cannot write {}", file.display()))?;
        }
        let failed = !self.failures.is_empty() || output.check && !missed.is_empty();
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// An empty table with these column heads, numbers to the right.
pub(crate) fn table<const N: usize>(heads: [&str; N]) -> Table {
    table_of(heads)
}

/// The same, with as many heads as there are.
pub(crate) fn table_of<H: Into<Cell>>(heads: impl IntoIterator<Item = H>) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(heads.into_iter().map(Into::into).collect::<Vec<Cell>>());
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A figure with two decimals, in green or red if it has a limit.
pub(crate) fn judged_cell(value: f64, limit: Option<f64>) -> Cell {
    let cell = Cell::new(format!("{value:.2}"));
    match limit {
        Some(limit) if value > limit => cell.fg(Color::Red),
        Some(_) => cell.fg(Color::Green),
        None => cell,
    }
}

/// A figure with this many decimals, or a dash.
pub(crate) fn optional(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

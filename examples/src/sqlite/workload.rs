//! A program with a database in memory for each tenant: rows come, nine in ten go, and questions are asked of what is left.

use core::time::Duration;

use cpu_time::ProcessTime;
use meshheap::{MeshBudget, Statistics};
use meshheap_linux::memory::pss_bytes;
use rusqlite::{Connection, params};

use super::Installed;
use crate::lua::SystemMemory;
use crate::meshing::MeshReport;
use crate::rival::Figures;

/// How much of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    /// Databases.
    pub tenants: usize,
    /// Rows that each gets in the rush hour.
    pub rows: i64,
}

/// The tenants' databases, after the rush hour.
#[derive(Debug)]
pub struct Tenants {
    connections: Vec<Connection>,
    /// CPU time of the rush hour and what followed.
    pub cpu: Duration,
}

impl Tenants {
    /// Fills the databases side by side, changes some rows, and deletes nine in ten.
    ///
    /// # Errors
    /// SQLite's.
    pub fn after_rush_hour(scale: Scale) -> rusqlite::Result<Self> {
        let begun = ProcessTime::now();
        let connections = (0..scale.tenants).map(|_| open()).collect::<rusqlite::Result<Vec<_>>>()?;
        let batch = 100;
        for start in (0..scale.rows).step_by(batch) {
            for (tenant, connection) in connections.iter().enumerate() {
                insert(connection, tenant, start..(start + batch as i64).min(scale.rows))?;
            }
        }
        for connection in &connections {
            connection.execute("UPDATE orders SET note = note || ' (paid)' WHERE id % 7 = 3", [])?;
            connection.execute("DELETE FROM orders WHERE (id * 7919 + 13) % 10 <> 0", [])?;
        }
        Ok(Self { connections, cpu: begun.elapsed() })
    }

    /// Questions to every tenant's database: by the primary key, by an index, and through all rows.
    ///
    /// # Errors
    /// SQLite's.
    pub fn ask(&self) -> rusqlite::Result<i64> {
        let mut sum = 0_i64;
        for connection in &self.connections {
            let all = "SELECT count(*) + total(length(note)) + total(price * 100) FROM orders";
            let all: f64 = connection.query_row(all, [], |row| row.get(0))?;
            let mut by_city = connection.prepare("SELECT count(*), max(note) FROM orders WHERE city = ?1")?;
            for city in CITIES {
                let (count, note) = by_city.query_row([city], |row| Ok((row.get(0)?, row.get(1)?)))?;
                let (count, note): (i64, Option<String>) = (count, note);
                let length = note.map_or(0, |note| note.len() as i64);
                sum = sum.wrapping_mul(31).wrapping_add(count * 1000 + length);
            }
            let check: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
            #[expect(clippy::cast_possible_truncation, reason = "sums are small")]
            let all = all as i64;
            sum = sum.wrapping_mul(31).wrapping_add(all).wrapping_add(i64::from(check == "ok"));
        }
        Ok(sum)
    }
}

const CITIES: [&str; 6] = ["Lisbon", "Nairobi", "Osaka", "Quito", "Tbilisi", "Utrecht"];

fn open() -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    // Pages that hold nothing any more go back to the allocator.
    connection.execute_batch(
        "PRAGMA page_size = 1024; PRAGMA auto_vacuum = FULL;
         CREATE TABLE orders (id INTEGER PRIMARY KEY, city TEXT, price REAL, note TEXT);
         CREATE INDEX orders_by_city ON orders (city, price);",
    )?;
    Ok(connection)
}

fn insert(connection: &Connection, tenant: usize, ids: core::ops::Range<i64>) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN")?;
    let mut row = connection.prepare("INSERT INTO orders VALUES (?1, ?2, ?3, ?4)")?;
    for id in ids {
        let number = usize::try_from(id).unwrap_or(0) * 31 + tenant;
        let note = format!("order {id} of tenant {tenant}{}", " and so on".repeat(number % 23));
        row.execute(params![id, CITIES[number % CITIES.len()], (number % 9973) as f64 / 100.0, note])?;
    }
    connection.execute_batch("COMMIT")
}

/// How it went.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The heap when the program is idle, and after meshing.
    pub before: Statistics,
    /// See `before`.
    pub after: Statistics,
    /// The process's Pss then, where the system tells.
    pub pss: [Option<usize>; 2],
    /// What meshing did.
    pub mesh: MeshReport,
    /// What the tenants' databases answered before and after.
    pub answers: [i64; 2],
    /// CPU time of the rush hour.
    pub cpu: Duration,
    /// Objects that SQLite asked for.
    pub allocations: usize,
}

/// The rush hour, then meshing while the program is idle, on SQLite with a heap of ours.
///
/// # Errors
/// SQLite's.
pub fn run(installed: Installed, scale: Scale, budget: MeshBudget) -> rusqlite::Result<Outcome> {
    let mut tenants = Tenants::after_rush_hour(scale)?;
    let first = tenants.ask()?;
    installed.flush();
    let allocations = installed.allocations();
    let (before, pss_before) = (installed.heap().statistics(), pss_bytes());
    // SAFETY: SQLite is used on this thread only, and these are all connections.
    let mesh = unsafe { installed.mesh(&mut tenants.connections, budget) };
    let (after, pss_after) = (installed.heap().statistics(), pss_bytes());
    let answers = [first, tenants.ask()?];
    Ok(Outcome { before, after, pss: [pss_before, pss_after], mesh, answers, cpu: tenants.cpu, allocations })
}

/// The rush hour on malloc, for a process of its own: Pss afterwards, and after `malloc_trim(0)`.
///
/// # Errors
/// SQLite's.
pub fn run_on_system(scale: Scale) -> rusqlite::Result<Figures> {
    let tenants = Tenants::after_rush_hour(scale)?;
    let mut figures = Figures::default();
    figures.set("answer", tenants.ask()?.cast_unsigned());
    figures.set_time("cpu", tenants.cpu);
    figures.set("idle", pss_bytes().unwrap_or(0) as u64);
    SystemMemory.trim();
    figures.set("trimmed", pss_bytes().unwrap_or(0) as u64);
    Ok(figures)
}

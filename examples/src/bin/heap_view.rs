//! Shows the heap of a running program in the terminal.
//!
//!     cargo run --release -p meshheap-examples --example live_heap -- /tmp/heap.socket
//!     cargo run --release -p meshheap-examples --bin heap_view -- /tmp/heap.socket

use core::time::Duration;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use meshheap_examples::live::view::{Paint, draw};
use meshheap_examples::live::{Snapshot, fetch};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode};

/// Shows the heap of a running program: occupancy, aliases, limits, and every page.
#[derive(Parser)]
struct Arguments {
    /// The socket at which the program tells of its heap.
    socket: PathBuf,
    /// Print one look as text, without colours, and end. So it is where the output is no terminal.
    #[arg(long)]
    once: bool,
    /// Write a picture of every page, as heap.svg and heap.png, into this folder, and end. Key `s` does so, too.
    #[arg(long, value_name = "FOLDER")]
    picture: Option<PathBuf>,
    /// Milliseconds between two looks.
    #[arg(long, default_value_t = 500)]
    every: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.picture {
        Some(folder) => {
            fetch(&arguments.socket).and_then(|snapshot| save(&snapshot, folder)).map(|told| println!("{told}"))
        }
        None if arguments.once || !io::stdout().is_terminal() => print_once(&arguments.socket),
        None => watch(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heap_view: {}: {error}", arguments.socket.display());
            ExitCode::FAILURE
        }
    }
}

/// Writes the picture; tells where.
fn save(snapshot: &Snapshot, folder: &Path) -> io::Result<String> {
    let [svg, png] = snapshot.picture().write(folder, "heap")?;
    Ok(format!("wrote {} and {}", svg.display(), png.display()))
}

fn print_once(socket: &Path) -> io::Result<()> {
    let snapshot = fetch(socket)?;
    let mut terminal = Terminal::new(TestBackend::new(140, 40)).unwrap_or_else(|never| match never {});
    let drawn = terminal.draw(|frame| draw(frame, &snapshot, Paint::Letters, ""));
    drawn.map(drop).unwrap_or_else(|never| match never {});
    let buffer = terminal.backend().buffer();
    for row in buffer.content().chunks(usize::from(buffer.area.width)) {
        let line: String = row.iter().map(|place| place.symbol()).collect();
        println!("{}", line.trim_end());
    }
    Ok(())
}

fn watch(arguments: &Arguments) -> io::Result<()> {
    // Before the terminal is ours: who is not there is told in plain words.
    let mut snapshot = fetch(&arguments.socket)?;
    let mut message = String::from("q ends, s writes heap.svg and heap.png");
    ratatui::run(|terminal| {
        loop {
            terminal.draw(|frame| draw(frame, &snapshot, Paint::Colours, &message))?;
            if event::poll(Duration::from_millis(arguments.every))?
                && let Event::Key(key) = event::read()?
            {
                match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                    KeyCode::Char('s') => {
                        message = save(&snapshot, Path::new(".")).unwrap_or_else(|error| error.to_string());
                    }
                    _ => {}
                }
            }
            match fetch(&arguments.socket) {
                Ok(next) => snapshot = next,
                Err(error) => message = format!("the program is gone ({error}); this was its last state. q ends"),
            }
        }
    })
}

//! A bar that fills while memory comes back.

use indicatif::{ProgressBar, ProgressStyle};
use meshheap_examples::lua::experiment::Event;
use meshheap_examples::meshing::MeshReport;
use meshheap_examples::units::{Mib, pause};

use crate::report;

/// What is shown while the experiment runs.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    page_size: usize,
}

impl Progress {
    pub(crate) const fn new() -> Self {
        Self { bar: None, page_size: 4096 }
    }

    pub(crate) fn show(&mut self, event: Event<'_>) {
        match event {
            Event::Collected(workload, before) => {
                report::workload(workload, before);
                self.page_size = before.map.page_size();
                self.start(before.heap.held_bytes.saturating_sub(before.heap.taken_bytes));
            }
            Event::Stepped(report) => self.step(report),
            Event::Meshed => self.finish(),
        }
    }

    /// `wasted` bytes are what could come back at the very best.
    fn start(&mut self, wasted: usize) {
        let style =
            ProgressStyle::with_template("Meshing [{bar:44.magenta/black}] {msg}").expect("the template is right");
        let bar = ProgressBar::new(wasted as u64).with_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
        self.bar = Some(bar);
    }

    fn step(&self, report: &MeshReport) {
        let Some(bar) = &self.bar else { return };
        let back = (report.pages_freed + report.pages_purged) * self.page_size;
        bar.set_position((back as u64).min(bar.length().unwrap_or(0)));
        bar.set_message(format!("{} MiB back, {} steps, longest {}", Mib(back), report.steps, pause(report.longest)));
    }

    pub(crate) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.abandon();
        }
    }
}

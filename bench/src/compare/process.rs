//! One run: a process, from its start to its last figure.

use core::time::Duration;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;
use wait4::{ResUse, Wait4};
use workloads::{Outcome, Workload};

use crate::compare::allocators::Program;
use crate::compare::cgroup::Group;
use crate::compare::failure::Failure;
use crate::compare::rounds::Plan;
use crate::compare::sampling::pss_of;

/// How often a process without a cgroup is looked at.
const SAMPLE: Duration = Duration::from_millis(5);

/// The figures of one run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    /// In user and kernel mode, from the process's start to its end.
    pub(crate) cpu_s: f64,
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
    pub(crate) wall_s: f64,
    /// By the memory cgroup, or else the highest Pss that was seen.
    pub(crate) peak_bytes: Option<usize>,
    /// Counts a meshed page once for each of its addresses.
    pub(crate) peak_rss_bytes: u64,
    /// Pss at the end, while the program holds its data.
    pub(crate) final_pss_bytes: Option<usize>,
    pub(crate) minor_faults: Option<u64>,
    pub(crate) major_faults: Option<u64>,
    pub(crate) checksum: u64,
}

/// Runs a workload once.
pub(crate) fn run(program: &Program, workload: &Workload, plan: &Plan<'_>) -> Result<Run, Failure> {
    let group = plan.cgroups.and_then(|cgroups| cgroups.group().ok());
    let start = Instant::now();
    let child = command(program, &[workload.name, &plan.scale.to_string()], group.as_ref()).spawn();
    let child = child.map_err(|error| Failure::Crashed(format!("cannot start: {error}")))?;
    let ended = watch(child, plan.timeout, group.is_none())?;
    let wall_s = start.elapsed().as_secs_f64();
    let outcome: Outcome = outcome(&ended)?;
    let usage = ended.usage.rusage;
    Ok(Run {
        cpu_s: (usage.utime + usage.stime).as_secs_f64(),
        user_s: usage.utime.as_secs_f64(),
        system_s: usage.stime.as_secs_f64(),
        wall_s,
        peak_bytes: group.map_or(ended.peak_pss, |group| group.peak()),
        peak_rss_bytes: usage.maxrss,
        final_pss_bytes: outcome.final_pss_bytes,
        minor_faults: outcome.minor_faults,
        major_faults: outcome.major_faults,
        checksum: outcome.checksum,
    })
}

/// The program of an allocator with these arguments, to be run in a group of its own.
pub(crate) fn command(program: &Program, arguments: &[&str], group: Option<&Group>) -> Command {
    let mut command = Command::new(&program.path);
    command.args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_remove("LD_PRELOAD");
    if let Some(library) = &program.preload {
        command.env("LD_PRELOAD", library);
    }
    if let Some(mut door) = group.and_then(|group| group.door().ok()) {
        let enter = move || door.write_all(b"0");
        // SAFETY: between fork and exec, `enter` makes one system call, with memory that is there already.
        unsafe { command.pre_exec(enter) };
    }
    command
}

/// A process that has ended.
pub(crate) struct Ended {
    pub(crate) usage: ResUse,
    peak_pss: Option<usize>,
    output: String,
    errors: String,
}

/// Waits for the end, but not for longer than `timeout`. Looks at the memory meanwhile if `samples`.
pub(crate) fn watch(mut child: Child, timeout: Duration, samples: bool) -> Result<Ended, Failure> {
    let output = collect(child.stdout.take());
    let errors = collect(child.stderr.take());
    let deadline = Instant::now() + timeout;
    let mut peak_pss = None;
    let output = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match output.recv_timeout(if samples { left.min(SAMPLE) } else { left }) {
            Ok(output) => break Some(output),
            Err(RecvTimeoutError::Timeout) if !left.is_zero() => peak_pss = peak_pss.max(pss_of(child.id())),
            Err(_) => break None,
        }
    };
    if output.is_none() {
        // It may just have ended by itself, which comes to the same.
        let _ = child.kill();
    }
    let usage = child.wait4().map_err(|error| Failure::Crashed(format!("cannot wait: {error}")))?;
    let errors = errors.recv().unwrap_or_default();
    Ok(Ended { usage, peak_pss, output: output.ok_or(Failure::TimedOut)?, errors })
}

/// Reads a pipe to its end, which comes with the end of the process.
fn collect(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        let read = pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut text));
        // Nobody waits for the output of a process that timed out.
        let _ = sender.send(read.map(|_| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default());
    });
    receiver
}

/// What the program printed.
pub(crate) fn outcome<T: DeserializeOwned>(ended: &Ended) -> Result<T, Failure> {
    let status = ended.usage.status;
    let last_error = ended.errors.lines().last().unwrap_or_default();
    match status.code() {
        Some(0) => serde_json::from_str(&ended.output)
            .map_err(|_| Failure::Crashed("it printed something else than an outcome".to_owned())),
        Some(3) => Err(Failure::NotLoaded(ended.errors.lines().next().unwrap_or_default().to_owned())),
        _ => Err(Failure::Crashed(format!("{} {last_error}", ending(status)).trim().to_owned())),
    }
}

fn ending(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("signal {signal}"),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => status.to_string(),
    }
}

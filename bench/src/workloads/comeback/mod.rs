//! Programs whose load ends: what they hold then, and at most before.
//!
//! Unlike the workloads, they look at their own memory while they run. All of their objects' bytes are written.

mod fill;
mod idle;
mod kept;
mod scenarios;

use core::time::Duration;
use std::env::Args;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use idle::Pause;
use kept::Kept;

/// How a scenario is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How much is allocated; 1 is the size that the project's limits are for.
    pub scale: f64,
    /// How long the program is idle at its end.
    pub idle: Duration,
    /// Whether a second thread, which only sleeps, is there all the time.
    pub second_thread: bool,
}

/// What was seen. The memory of the program itself, from before its first object, is left out; Pss is none where the kernel does
/// not tell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Seen {
    /// Depends on the contents of the objects that are left.
    pub checksum: u64,
    /// Bytes of the objects at the end.
    pub live_bytes: usize,
    /// The most bytes of objects at any time.
    pub most_live_bytes: usize,
    /// The most Pss that was seen.
    pub peak_pss_bytes: Option<usize>,
    /// Pss once the load has ended, before the idle time.
    pub loaded_pss_bytes: Option<usize>,
    /// Pss after the idle time.
    pub held_pss_bytes: Option<usize>,
}

/// One scenario.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// What the command line calls it.
    pub name: &'static str,
    /// What it does, in half a line.
    pub what: &'static str,
    /// How many objects may live at once.
    room: fn(f64) -> usize,
    load: fn(&mut Kept, f64, Pause),
}

/// Every scenario, in the order of the tables.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "power-law",
        what: "300 MiB of 16 bytes to 64 KiB, 90 % freed at random",
        room: scenarios::power_law_room,
        load: scenarios::power_law,
    },
    Scenario {
        name: "doubling",
        what: "128 MiB of strings, every fourth of which survives; then of twice their size; 0.2 s between",
        room: scenarios::doubling_room,
        load: scenarios::doubling,
    },
    Scenario {
        name: "doubling-nonstop",
        what: "the same without a pause",
        room: scenarios::doubling_room,
        load: scenarios::doubling_nonstop,
    },
    Scenario {
        name: "doubling-random",
        what: "as doubling, but a quarter survives at random",
        room: scenarios::doubling_room,
        load: scenarios::doubling_random,
    },
    Scenario {
        name: "all-freed",
        what: "300 MiB as in power-law, all freed",
        room: scenarios::power_law_room,
        load: scenarios::all_freed,
    },
];

impl Scenario {
    /// The scenario of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|scenario| scenario.name == name)
    }

    /// Runs it.
    #[must_use]
    pub fn run(&self, plan: &Plan) -> Seen {
        let sleeper = plan.second_thread.then(idle::Sleeper::new);
        let mut kept = Kept::with_room((self.room)(plan.scale));
        (self.load)(&mut kept, plan.scale, Pause);
        let loaded_pss_bytes = kept.look();
        Pause.of(plan.idle);
        let held_pss_bytes = kept.look();
        drop(sleeper);
        kept.into_seen(loaded_pss_bytes, held_pss_bytes)
    }
}

/// What the command line calls for `SCENARIO THREADS IDLE_SECONDS SCALE`, the outcome on the standard output as JSON.
pub(crate) fn main(arguments: Args) -> ExitCode {
    let Some((scenario, plan)) = parse(arguments) else {
        let names: Vec<_> = ALL.iter().map(|scenario| scenario.name).collect();
        eprintln!("comeback SCENARIO THREADS IDLE_SECONDS SCALE, SCENARIO being one of {}", names.join(", "));
        return ExitCode::from(2);
    };
    println!("{}", serde_json::to_string(&scenario.run(&plan)).expect("numbers can be written"));
    ExitCode::SUCCESS
}

fn parse(mut arguments: Args) -> Option<(&'static Scenario, Plan)> {
    let scenario = Scenario::named(&arguments.next()?)?;
    let threads: usize = arguments.next()?.parse().ok()?;
    let idle = Duration::try_from_secs_f64(arguments.next()?.parse().ok()?).ok()?;
    let scale = arguments.next()?.parse().ok()?;
    Some((scenario, Plan { scale, idle, second_thread: threads > 1 }))
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::{ALL, Plan, Scenario, Seen};

    fn run(scenario: &Scenario, second_thread: bool) -> Seen {
        scenario.run(&Plan { scale: 0.01, idle: Duration::ZERO, second_thread })
    }

    #[test]
    fn a_scenario_is_the_same_each_time() {
        for scenario in ALL {
            let (one, other) = (run(scenario, false), run(scenario, true));
            assert_eq!((one.checksum, one.live_bytes), (other.checksum, other.live_bytes), "{}", scenario.name);
        }
    }

    #[test]
    fn as_much_lives_as_is_said() {
        let live = |name| {
            let seen = run(Scenario::named(name).expect("it is known"), false);
            [seen.most_live_bytes, seen.live_bytes].map(|bytes| bytes as f64 / f64::from(1 << 20))
        };
        let is_near = |found: f64, wanted: f64| (found - wanted).abs() <= wanted / 4.0;
        let [most, left] = live("power-law");
        assert!(is_near(most, 3.0) && is_near(left, 0.3), "{most} {left}");
        let [most, left] = live("doubling-nonstop");
        assert!(is_near(most, 1.28) && is_near(left, 0.32), "{most} {left}");
        assert_eq!(live("all-freed")[1], 0.0);
    }
}

//! Threads that end in unusual ways.

use crate::support::{compile, output, under_library};

fn ends(how: &str, settings: &[(&str, &str)]) {
    let program = compile("cc", "endings.c", &[]);
    output(under_library(program).arg(how).envs(settings.iter().copied()));
}

#[test]
fn no_call_of_the_heap_is_a_point_of_cancellation() {
    ends("cancelled", &[]);
    ends("cancelled", &[("MESHHEAP_MESH", "steps"), ("MESHHEAP_BARRIER", "signal")]);
    ends("cancelled", &[("MESHHEAP_MESH", "request")]);
}

#[test]
fn the_meshing_thread_does_not_keep_a_process_whose_threads_have_ended() {
    ends("last", &[]);
    ends("last", &[("MESHHEAP_MESH", "thread")]);
}

#[test]
fn a_signal_handler_that_interrupts_the_end_of_a_thread_may_fork() {
    ends("destructors", &[]);
}

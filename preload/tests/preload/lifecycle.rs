//! Allocation at every moment of a process's life.

use crate::support::{compile, output, under_library};

fn lives_through(moment: &str) {
    let program = compile("cc", "lifecycle.c", &["-ldl"]);
    output(under_library(program).arg(moment));
}

#[test]
fn ten_thousand_threads_come_and_go_and_leave_nothing() {
    lives_through("threads");
}

#[test]
fn two_thousand_threads_live_at_once() {
    lives_through("many");
}

#[test]
fn threads_fork_while_others_allocate_and_handlers_do() {
    lives_through("forks");
}

#[test]
fn fork_handlers_that_were_registered_before_the_heaps_may_allocate() {
    let program = compile("cc", "lifecycle.c", &["-ldl"]);
    output(under_library(program).arg("forks").env("ATFORK_EARLY", "1"));
}

#[test]
fn a_signal_handler_that_interrupts_the_heap_may_fork() {
    lives_through("signals");
}

#[test]
fn libraries_are_opened_and_closed() {
    lives_through("dlopen");
}

#[test]
fn closed_streams_do_not_matter() {
    lives_through("closed");
}

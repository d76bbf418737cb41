//! What survives: crashes at every append and at random moments, signals, and what becomes of child processes.

#[expect(dead_code, reason = "this program uses a part of the harness")]
mod support;

mod durability {
    mod batches;
    mod crash;
    mod faults;
    mod fixing;
    mod interruptions;
    mod links;
    mod nightly;
    mod odd_machines;
    mod power;
    mod replaced;
    mod tool_loops;
    mod watchdog;
}

//! The program `ensemble`: parses the command line, runs one command and exits with its code.

mod command;
mod terminal;

/// Allocator of the program, which counts the memory of scripts and templates.
/// The program allocates many small texts for every file and every event.
#[global_allocator]
static ALLOCATOR: ensemble_memory::thread_limit::CountingAllocator<mimalloc::MiMalloc> =
    ensemble_memory::thread_limit::CountingAllocator(mimalloc::MiMalloc);

/// Runs the command line of the process.
fn main() -> std::process::ExitCode {
    command::main()
}

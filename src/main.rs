//! The program: arguments in, words and an exit code out.

mod cli;

/// Trees of small texts come and go with every file and every event.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::main()
}

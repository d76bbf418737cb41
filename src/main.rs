//! The program: arguments in, words and an exit code out.

mod command;
mod terminal;

/// Trees of small texts come and go with every file and every event. What a script or a template takes is counted.
#[global_allocator]
static ALLOCATOR: ensemble_memory::thread_limit::CountingAllocator<mimalloc::MiMalloc> =
    ensemble_memory::thread_limit::CountingAllocator(mimalloc::MiMalloc);

fn main() -> std::process::ExitCode {
    command::main()
}

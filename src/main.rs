//! The program: everything is in the library.

/// Trees of small texts come and go with every file and every event.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    ensemble::cli::main()
}

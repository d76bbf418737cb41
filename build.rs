//! Links the program at a fixed address on Linux.
//!
//! A position-independent program has tens of thousands of addresses corrected before its first instruction. That was a
//! third of the time of a short command such as `ensemble --version` (`docs/performance.md`). Libraries, heap and stack keep
//! their random addresses.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script is told about its target by the environment"
)]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let of_target = |key: &str| std::env::var(key).unwrap_or_default();
    let is_linux = of_target("CARGO_CFG_TARGET_OS") == "linux" && of_target("CARGO_CFG_TARGET_ENV") == "gnu";
    if is_linux && of_target("PROFILE") == "release" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}

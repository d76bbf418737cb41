//! Counter of the memory that a thread has allocated, so that a script or a template as a whole can have a limit.
//!
//! A program that wants such limits makes [`CountingAllocator`] its global allocator. Without the allocator, [`used_bytes`] is always 0,
//! and no limit has an effect.
//!
//! [`run_with_limit`] runs a function on the calling thread, under two checks. The function asks [`used_bytes`] from time to time, and
//! ends itself above the limit. One operation that builds a huge text asks nothing, so the allocator stops the thread: the allocation
//! never returns, and a callback reports the loss. An allocator can neither fail without ending the process nor unwind, so the thread
//! and its memory are lost.
//!
//! **Invariant:** a thread allocates no more than the bytes of its limit while [`run_with_limit`] runs.

#![expect(unsafe_code, reason = "an allocator is unsafe")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// Allocator that counts the bytes that each thread has allocated and not freed.
#[derive(Debug, Default, Clone, Copy)]
pub struct CountingAllocator<A>(pub A);

/// Callback that reports a thread that was stopped.
type LostThreadCallback = Box<dyn FnOnce()>;

thread_local! {
    /// Bytes since [`run_with_limit`] started. Memory of other threads that this thread frees reduces the number.
    static USED: Cell<isize> = const { Cell::new(0) };
    /// Limit of the thread, in bytes.
    static LIMIT: Cell<isize> = const { Cell::new(isize::MAX) };
    /// Callback for the case that the allocator stops the thread.
    static LOST_CALLBACK: RefCell<Option<LostThreadCallback>> = const { RefCell::new(None) };
}

/// Returns the bytes that this thread has allocated since [`run_with_limit`] started. Returns 0 if the program does not count.
pub fn used_bytes() -> usize {
    usize::try_from(USED.get()).unwrap_or(0)
}

/// Runs the function on this thread, which can allocate `most` bytes in addition. Calls must not be nested.
///
/// If one allocation exceeds the limit, the function never returns, and the thread calls `lost` and sleeps forever.
pub fn run_with_limit<T>(most: usize, lost: impl FnOnce() + 'static, run: impl FnOnce() -> T) -> T {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            LIMIT.set(isize::MAX);
            LOST_CALLBACK.take();
        }
    }
    LOST_CALLBACK.set(Some(Box::new(lost)));
    let _end = End;
    USED.set(0);
    LIMIT.set(isize::try_from(most).unwrap_or(isize::MAX));
    run()
}

/// Counts `bytes` in addition. Stops the thread if the limit is exceeded.
///
/// The function is not inlined into the program, which is optimized less than this crate.
#[inline(never)]
fn add_bytes_or_stop(bytes: usize) {
    let used = USED.get().saturating_add_unsigned(bytes);
    if used > LIMIT.get() {
        stop_thread_forever();
    }
    USED.set(used);
}

/// Subtracts `bytes` from the counted bytes.
#[inline(never)]
fn subtract_bytes(bytes: usize) {
    USED.set(USED.get().saturating_sub_unsigned(bytes));
}

/// Counts `taken` bytes instead of `given`. Both can exist for a moment, so the new bytes are counted first.
#[inline(never)]
fn count_reallocation(given: usize, taken: usize) {
    add_bytes_or_stop(taken);
    subtract_bytes(given);
}

/// Calls the callback and lets the thread sleep forever. The memory stays allocated, because other threads might refer to it.
#[cold]
fn stop_thread_forever() -> ! {
    LIMIT.set(isize::MAX);
    if let Some(callback) = LOST_CALLBACK.take() {
        callback();
    }
    loop {
        std::thread::sleep(Duration::MAX);
    }
}

// SAFETY: each call is passed on unchanged; only numbers of this thread are changed beside it.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add_bytes_or_stop(layout.size());
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add_bytes_or_stop(layout.size());
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        subtract_bytes(layout.size());
        // SAFETY: the caller's promise.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_reallocation(layout.size(), size);
        // SAFETY: the caller's promise.
        unsafe { self.0.realloc(pointer, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;
    use std::hint::black_box;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator<System> = CountingAllocator(System);

    #[test]
    fn what_a_thread_has_is_counted() {
        let (one, two, none) = run_with_limit(
            1 << 20,
            || {},
            || {
                let mut text = black_box(vec![0_u8; 1000]);
                let one = used_bytes();
                text.reserve_exact(5000);
                let two = used_bytes();
                drop(text);
                (one, two, used_bytes())
            },
        );
        assert_eq!((one, two, none), (1000, 6000, 0));
    }

    #[test]
    fn other_threads_do_not_count() {
        let elsewhere = run_with_limit(
            1 << 20,
            || {},
            || thread::scope(|scope| scope.spawn(|| black_box(vec![0_u8; 2 << 20]).len()).join()).expect("it goes on"),
        );
        assert_eq!(elsewhere, 2 << 20);
    }

    #[test]
    fn a_thread_that_takes_too_much_at_once_is_lost_and_that_is_told() {
        let (sender, receiver) = channel();
        thread::spawn(move || {
            let lost = sender.clone();
            let length = run_with_limit(
                1 << 20,
                move || lost.send(0).expect("somebody waits"),
                || black_box(vec![0_u8; 2 << 20]).len(),
            );
            sender.send(length).expect("somebody waits");
        });
        assert_eq!(receiver.recv(), Ok(0));
    }

    #[test]
    fn the_limit_ends_with_what_it_limits() {
        run_with_limit(1 << 10, || panic!("it is not lost"), || ());
        assert_eq!(black_box(vec![0_u8; 2 << 10]).len(), 2 << 10);
    }
}

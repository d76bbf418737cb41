//! Counts the memory that a thread has allocated, so that a script or a template as a whole can have a limit.
//!
//! A program that wants such limits makes [`CountingAllocator`] its global allocator. Without it [`used_bytes`] is always 0, and nothing
//! is limited.
//!
//! [`run_with_limit`] runs something on the calling thread. It has two limits. Whatever runs asks [`used_bytes`] from time to time and
//! ends by itself when it has too much. What does not ask (one operation that builds a huge text) is caught by the
//! allocator: it never returns to the thread, and tells somebody else. An allocator can neither fail without ending
//! the process nor unwind, so the thread is lost, with what it holds.
//!
//! **Invariant:** a thread takes no more than the bytes of its limit while [`run_with_limit`] runs.

#![expect(unsafe_code, reason = "an allocator is unsafe")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// An allocator that counts what the thread has.
#[derive(Debug, Default, Clone, Copy)]
pub struct CountingAllocator<A>(pub A);

type LostThreadCallback = Box<dyn FnOnce()>;

thread_local! {
    /// The bytes since [`run_with_limit`] began; what others have allocated and this thread frees makes it smaller.
    static USED: Cell<isize> = const { Cell::new(0) };
    static LIMIT: Cell<isize> = const { Cell::new(isize::MAX) };
    static LOST_CALLBACK: RefCell<Option<LostThreadCallback>> = const { RefCell::new(None) };
}

/// Returns the bytes that this thread has allocated since [`run_with_limit`] began; 0 if the program does not count
/// them.
pub fn used_bytes() -> usize {
    usize::try_from(USED.get()).unwrap_or(0)
}

/// Runs it on this thread, which may have `most` bytes more than it has now. If it wants more at once, it never returns,
/// and `lost` is called on the thread.
///
/// It is not nested.
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

/// Counts `bytes` more; the thread stops here if that is too much.
///
/// This is not inlined into the program, which is optimised less than this crate.
#[inline(never)]
fn add_bytes_or_stop(bytes: usize) {
    let used = USED.get().saturating_add_unsigned(bytes);
    if used > LIMIT.get() {
        stop_thread_forever();
    }
    USED.set(used);
}

#[inline(never)]
fn subtract_bytes(bytes: usize) {
    USED.set(USED.get().saturating_sub_unsigned(bytes));
}

/// Counts `taken` instead of `given`; both may exist for a moment.
#[inline(never)]
fn count_reallocation(given: usize, taken: usize) {
    add_bytes_or_stop(taken);
    subtract_bytes(given);
}

/// The end of this thread. Nothing that it holds can be taken back, because somebody may refer to it.
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

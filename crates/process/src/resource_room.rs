//! Room for child processes and connections: how many fit into the limits of this process.
//!
//! A child process needs four open files here, and some more while it starts. What does not fit waits until something
//! else ends. Some files stay free for the journal, scripts and the watchdog.
//!
//! **Invariant:** whoever holds a place does not wait for another one.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// Number of open files that are not available to child processes and connections.
const RESERVED_FILES: u64 = 64;
/// Open files of one child process, with those of its start.
const FILES_PER_PROCESS: u64 = 6;
/// Minimum number of permits, even if few files can be open.
const MIN_PERMITS: u64 = 2;
/// How long something that does not fit waits before it tries again, if nothing ends.
const RESOURCE_RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of retries while no other process or connection can release resources.
const MAX_TRIES_WHEN_ALONE: u32 = 250;

/// The limits of open files before they were raised.
static ORIGINAL_FILE_LIMIT: OnceLock<Rlimit> = OnceLock::new();

static RESOURCE_ROOM: LazyLock<OpenFilePermits> =
    LazyLock::new(|| OpenFilePermits::new(getrlimit(Resource::Nofile).current));

/// Semaphore for child processes and connections, sized by the limit of open files.
struct OpenFilePermits {
    permits: Semaphore,
    taken_count: AtomicUsize,
    permit_released: Notify,
}

/// Permit for a child process or a connection. Dropping it releases the permit.
pub struct ResourcePermitGuard {
    room: &'static OpenFilePermits,
    _permit: Option<SemaphorePermit<'static>>,
}

/// Raises the limit of open files of this process as far as the system allows.
///
/// On Linux, child processes get the original limit.
pub fn raise_open_file_limit() {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: before.maximum,
        maximum: before.maximum,
    };
    if before.current != before.maximum && setrlimit(Resource::Nofile, raised).is_ok() {
        let _it_is_raised_once = ORIGINAL_FILE_LIMIT.set(before);
    }
}

/// Gives a child process the original limit of open files.
pub fn restore_child_file_limit(child: Option<u32>) {
    #[cfg(target_os = "linux")]
    if let (Some(before), Some(pid)) = (ORIGINAL_FILE_LIMIT.get(), child)
        && let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw)
    {
        let _it_has_ended = rustix::process::prlimit(Some(pid), Resource::Nofile, *before);
    }
    #[cfg(not(target_os = "linux"))]
    let _higher = child;
}

/// Waits for a permit for a child process or a connection.
pub async fn wait_for_process_permit() -> ResourcePermitGuard {
    RESOURCE_ROOM.wait_for_permit().await
}

/// Returns whether the error means that the system has no room for another process or file now.
pub fn is_out_of_resources(error: &io::Error) -> bool {
    let full = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| full.contains(&errno))
}

/// Waits until resources can be available again. Returns `false` after too many calls, which `tries` counts.
pub async fn wait_to_retry_for_resources(tries: &mut u32) -> bool {
    // The caller has a place, too.
    if RESOURCE_ROOM.taken_count.load(Ordering::Relaxed) <= 1 {
        *tries += 1;
    }
    let _ended_or_not = tokio::time::timeout(RESOURCE_RETRY_PAUSE, RESOURCE_ROOM.permit_released.notified()).await;
    *tries <= MAX_TRIES_WHEN_ALONE
}

impl OpenFilePermits {
    /// Creates permits for this limit of open files.
    fn new(open_files: Option<u64>) -> Self {
        let places = open_files.map_or(Semaphore::MAX_PERMITS as u64, |files| {
            files.saturating_sub(RESERVED_FILES) / FILES_PER_PROCESS
        });
        let places = usize::try_from(places.max(MIN_PERMITS)).unwrap_or(usize::MAX);
        Self {
            permits: Semaphore::new(places.min(Semaphore::MAX_PERMITS)),
            taken_count: AtomicUsize::new(0),
            permit_released: Notify::new(),
        }
    }

    async fn wait_for_permit(&'static self) -> ResourcePermitGuard {
        let permit = self.permits.acquire().await.ok();
        self.taken_count.fetch_add(1, Ordering::Relaxed);
        ResourcePermitGuard {
            room: self,
            _permit: permit,
        }
    }
}

impl Drop for ResourcePermitGuard {
    fn drop(&mut self) {
        self.room.taken_count.fetch_sub(1, Ordering::Relaxed);
        self.room.permit_released.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_places_follows_from_the_open_files() {
        let places = |files| OpenFilePermits::new(files).permits.available_permits();
        assert_eq!((places(Some(256)), places(Some(1024)), places(Some(10))), (32, 160, 2));
        assert_eq!(places(None), Semaphore::MAX_PERMITS);
    }

    #[tokio::test]
    async fn what_does_not_fit_waits_for_the_end_of_something_else() {
        let room: &'static OpenFilePermits = Box::leak(Box::new(OpenFilePermits::new(Some(10))));
        let (first, _second) = (room.wait_for_permit().await, room.wait_for_permit().await);
        let mut third = std::pin::pin!(room.wait_for_permit());
        assert!(futures_util::poll!(&mut third).is_pending());
        drop(first);
        assert!(futures_util::poll!(&mut third).is_ready());
    }

    #[test]
    fn a_lack_of_room_is_no_other_error() {
        for (errno, expected) in [(Errno::MFILE, true), (Errno::AGAIN, true), (Errno::NOENT, false)] {
            assert_eq!(is_out_of_resources(&errno.into()), expected, "{errno}");
        }
    }
}

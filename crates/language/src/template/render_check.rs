//! Limits that whoever renders a template sets: it is asked again and again whether the rendering may go on.
//!
//! MiniJinja counts steps, but one step can build a value of any size. So each printed and each assigned value is a
//! place where the rendering asks.

use std::cell::Cell;

use minijinja::{Error, ErrorKind};

/// A function that returns the reason to stop rendering on this thread, or `None` to continue.
pub type RenderStopCheck = fn() -> Option<&'static str>;

thread_local! {
    static RENDER_STOP_CHECK: Cell<Option<RenderStopCheck>> = const { Cell::new(None) };
}

/// Renders on this thread, and stops with an error as soon as the check `look` returns a reason.
pub fn render_with_check<T>(look: RenderStopCheck, render: impl FnOnce() -> T) -> T {
    struct Before(Option<RenderStopCheck>);
    impl Drop for Before {
        fn drop(&mut self) {
            RENDER_STOP_CHECK.set(self.0);
        }
    }
    let _before = Before(RENDER_STOP_CHECK.replace(Some(look)));
    render()
}

/// Calls the check of this thread. # Errors: the check returns a reason to stop.
pub(super) fn fail_if_render_stopped() -> Result<(), Error> {
    match RENDER_STOP_CHECK.get().and_then(|look| look()) {
        None => Ok(()),
        Some(reason) => Err(Error::new(ErrorKind::InvalidOperation, reason)),
    }
}

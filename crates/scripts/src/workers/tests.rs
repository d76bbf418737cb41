use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::ThreadId;

use super::*;

const LONG: Duration = Duration::from_secs(20);

fn workers() -> &'static WorkerPool {
    Box::leak(Box::new(WorkerPool::new()))
}

/// Waits until so many threads have nothing to do.
fn idle(workers: &WorkerPool, count: usize) {
    for _ in 0..LONG.as_millis() {
        if workers.lock_state().idle == count {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("{} threads are idle", workers.lock_state().idle);
}

/// On which thread a job runs once it is known that there is one idle thread.
fn next_thread(workers: &'static WorkerPool) -> ThreadId {
    idle(workers, 1);
    let id = workers.run_and_wait(|| thread::current().id()).expect("a thread");
    idle(workers, 1);
    assert_eq!(workers.lock_state().threads, 1);
    id
}

/// Uses about a kilobyte of stack for each level.
fn recurse(levels: u32) -> u64 {
    let bytes = std::hint::black_box([levels.to_le_bytes()[0]; 1024]);
    if levels == 0 {
        return 0;
    }
    recurse(levels - 1) + u64::from(bytes[bytes.len() / 2])
}

#[test]
fn a_thread_is_used_again() {
    let workers = workers();
    let first = workers.run_and_wait(|| thread::current().id()).expect("a thread");
    assert_eq!(next_thread(workers), first);
    assert_eq!(next_thread(workers), first);
}

#[test]
fn a_thread_that_recursed_deeply_is_used_again() {
    let workers = workers();
    let job = || (thread::current().id(), recurse(100_000) > 0);
    let (first, counted) = workers.run_and_wait(job).expect("a thread");
    assert!(counted);
    assert_eq!(next_thread(workers), first);
}

#[test]
fn a_panic_does_not_lose_a_thread() {
    let workers = workers();
    let first = workers.run_and_wait(|| thread::current().id()).expect("a thread");
    idle(workers, 1);
    assert_eq!(workers.run_and_wait(|| -> u32 { panic!("as asked") }), None);
    assert_eq!(next_thread(workers), first);
}

#[test]
fn more_threads_come_where_work_waits_for_long() {
    let workers = workers();
    let ((arrived, arrivals), (release, released)) = (channel(), channel::<()>());
    let released = Arc::new(Mutex::new(released));
    let count = MAX_IMMEDIATE_THREADS * 3;
    for _ in 0..count {
        let (arrived, released) = (arrived.clone(), Arc::clone(&released));
        let job = move || {
            arrived.send(()).expect("counted");
            let _released = released.lock().map(|released| released.recv());
        };
        workers.submit_job(Box::new(job), JobPriority::InTurn);
    }
    for at in 0..count {
        assert!(arrivals.recv_timeout(LONG).is_ok(), "job {at} has not begun");
    }
    drop(release);
    let threads = workers.lock_state().threads;
    assert!((count..=MOST).contains(&threads), "{threads}");
}

#[test]
fn who_stands_still_does_not_wait_for_the_watch() {
    let workers = workers();
    workers.lock_state().watched = true;
    let (release, released) = channel::<()>();
    let released = Arc::new(Mutex::new(released));
    for _ in 0..MAX_IMMEDIATE_THREADS + 1 {
        let released = Arc::clone(&released);
        let job = move || drop(released.lock().map(|released| released.recv()));
        workers.submit_job(Box::new(job), JobPriority::InTurn);
    }
    let (answer, answers) = channel();
    thread::spawn(move || answer.send(workers.run_and_wait(|| 7)));
    assert_eq!(answers.recv_timeout(LONG), Ok(Some(7)));
    drop(release);
}

fn state(threads: usize, idle: usize) -> WorkerPoolState {
    WorkerPoolState {
        lost: 0,
        queue: VecDeque::new(),
        last: 0,
        threads,
        idle,
        watched: false,
    }
}

#[test]
fn many_jobs_start_few_threads() {
    let mut state = state(2, 1);
    let mut starts = Vec::new();
    for _ in 0..1_000 {
        state.queue_job(Box::new(|| ()), JobPriority::InTurn);
        starts.push(state.plan_thread_start(JobPriority::InTurn));
    }
    let expected = [
        ThreadToStart::Nothing,
        ThreadToStart::Worker,
        ThreadToStart::Worker,
        ThreadToStart::Watch,
    ];
    assert_eq!(starts[..4], expected);
    assert!(starts[4..].iter().all(|start| *start == ThreadToStart::Nothing));
    assert_eq!((state.threads, state.watched), (MAX_IMMEDIATE_THREADS, true));
}

#[test]
fn only_work_that_waits_from_one_look_to_the_next_brings_threads() {
    let mut state = state(4, 0);
    for _ in 0..10 {
        state.queue_job(Box::new(|| ()), JobPriority::InTurn);
    }
    assert_eq!(state.add_missing_threads(0), 0, "all have come since");
    assert_eq!(state.add_missing_threads(3), 3);
    assert_eq!(state.add_missing_threads(10), 7, "at most as many as there are");
    state.threads = MOST - 1;
    assert_eq!((state.add_missing_threads(10), state.add_missing_threads(10)), (1, 0));
}

#[test]
fn jobs_are_lost_only_where_there_is_no_thread_at_all() {
    let mut state = state(2, 0);
    state.queue_job(Box::new(|| ()), JobPriority::InTurn);
    assert!(state.handle_spawn_failure().is_empty());
    assert_eq!(state.handle_spawn_failure().len(), 1);
    assert_eq!(state.threads, 0);
}

#[tokio::test]
async fn a_thread_that_is_lost_is_replaced_until_too_many_are() {
    let workers = workers();
    // Nothing counts memory here, so the thread is told that it is lost.
    for lost in 1..=MAX_LOST_THREADS {
        workers.lock_state().threads += 1;
        workers.count_lost_thread();
        assert_eq!(workers.lock_state().lost, lost);
        assert_eq!(workers.lock_state().threads, 0);
    }
    let refused = workers.run_with_memory_limit(1 << 20, || (), |()| 1).await;
    assert_eq!(refused, Err(LostJobReason::Memory));
    workers.lock_state().lost = 0;
    assert_eq!(workers.run_with_memory_limit(1 << 20, || 2, |two| two + 1).await, Ok(3));
}

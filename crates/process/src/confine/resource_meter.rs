//! The resources that the processes of a sandbox use, as `/proc` shows them.
//!
//! The time of a process that has ended is found in the one that waited for it. If no process waited, the time is lost for
//! the system; the meter adds what it has seen last.

#![expect(clippy::disallowed_methods, reason = "the resources of processes are found in /proc")]

use std::collections::{HashMap, HashSet};
use std::fs;

use rustix::process::getpid;

use super::super::tree::{self, ProcessStat};
use super::SandboxRules;

/// The number of threads that may belong to each process that is allowed.
const MAX_THREADS_PER_PROCESS: u64 = 64;

/// Ticks that rounding can hide for each exited process.
const MAX_HIDDEN_TICKS: u64 = 2;

/// Identity of a process: its id and its start time, so that no later process is equal.
type ProcessIdentity = (i32, u64);

/// Segment of shared memory: its device and number.
type SharedMemorySegment = (String, u64);

/// Meter for the resources of all descendants of this process.
#[derive(Default)]
pub(super) struct ResourceMeter {
    /// The processes of the last measurement.
    stats: HashMap<ProcessIdentity, ProcessStat>,
    /// The processor time of processes that this one waited for.
    waited_ticks: u64,
    /// The processor time of processes for which no process waited.
    lost_ticks: u64,
    /// The size of each segment of shared memory. A segment keeps its pages if a part of it is unmapped.
    segments: HashMap<SharedMemorySegment, u64>,
}

/// Total resources of the measured processes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UsedResources {
    pub(super) processes: u64,
    threads: u64,
    ticks: u64,
    bytes: u64,
}

impl ResourceMeter {
    /// Measures all descendants of this process. Stops counting above the limit of processes, because they can grow faster.
    pub(super) fn measure_descendants(&mut self, rules: &SandboxRules) -> UsedResources {
        let own_pid = getpid().as_raw_pid();
        let max_processes = usize::try_from(rules.processes).unwrap_or(usize::MAX).saturating_add(1);
        let descendants = tree::list_descendants(own_pid, max_processes);
        let mut used = UsedResources {
            processes: descendants.len() as u64,
            ..UsedResources::default()
        };
        if descendants.len() >= max_processes {
            return used;
        }
        let found = descendants
            .iter()
            .filter_map(|pid| Some((*pid, tree::read_stat(*pid)?)));
        let stats: HashMap<ProcessIdentity, ProcessStat> =
            found.map(|(pid, stat)| ((pid, stat.started), stat)).collect();
        used.threads = stats.values().map(|stat| stat.threads).sum();
        // After the others: a process that has ended meanwhile is counted twice rather than not at all.
        let waited_ticks = tree::read_stat(own_pid).map_or(0, |stat| stat.ticks_of_children);
        used.ticks = self.add_and_total_ticks(stats, waited_ticks);
        if rules.memory.is_some() {
            used.bytes = self.measure_memory(&descendants);
        }
        used
    }

    /// Adds a measurement and returns the processor time of all processes so far, including exited ones.
    fn add_and_total_ticks(&mut self, stats: HashMap<ProcessIdentity, ProcessStat>, waited_ticks: u64) -> u64 {
        let ended: Vec<&ProcessStat> = self
            .stats
            .iter()
            .filter(|(process, _)| !stats.contains_key(process))
            .map(|(_, stat)| stat)
            .collect();
        let expected: u64 = ended.iter().map(|stat| stat.ticks).sum();
        let added = |(process, stat): (&ProcessIdentity, &ProcessStat)| {
            let before = self.stats.get(process).map_or(0, |stat| stat.ticks_of_children);
            stat.ticks_of_children.saturating_sub(before)
        };
        let found = stats.iter().map(added).sum::<u64>() + waited_ticks.saturating_sub(self.waited_ticks);
        let missing = expected.saturating_sub(found);
        if missing > MAX_HIDDEN_TICKS * ended.len() as u64 {
            self.lost_ticks += missing;
        }
        self.waited_ticks = waited_ticks;
        self.stats = stats;
        self.stats.values().map(|stat| stat.ticks).sum::<u64>() + self.waited_ticks + self.lost_ticks
    }

    /// Measures the memory of the processes in bytes: resident and swapped pages, and segments of shared memory.
    fn measure_memory(&mut self, pids: &[i32]) -> u64 {
        let mut private = 0;
        let mut shared = 0;
        let mut seen = HashSet::new();
        for pid in pids {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let memory = parse_memory_status(&status);
            private += memory.private;
            shared += memory.shared;
            let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
            for (segment, size) in maps.lines().filter_map(parse_shared_segment) {
                let known = self.segments.entry(segment.clone()).or_default();
                *known = size.max(*known);
                seen.insert(segment);
            }
        }
        self.segments.retain(|segment, _| seen.contains(segment));
        private + shared.max(self.segments.values().sum())
    }
}

/// Memory of one process, in bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct ProcessMemory {
    private: u64,
    shared: u64,
}

/// Parses the memory sizes in `/proc/PID/status`.
fn parse_memory_status(text: &str) -> ProcessMemory {
    let mut memory = ProcessMemory::default();
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let bytes = || {
            value
                .trim()
                .trim_end_matches(" kB")
                .parse::<u64>()
                .map_or(0, |number| number * 1024)
        };
        match key {
            "RssAnon" | "RssFile" | "VmSwap" => memory.private += bytes(),
            "RssShmem" => memory.shared += bytes(),
            _ => {}
        }
    }
    memory
}

/// Parses the shared segment in a line of `/proc/PID/maps`, and the end of the mapped part. Returns `None` for other memory.
fn parse_shared_segment(line: &str) -> Option<(SharedMemorySegment, u64)> {
    let (range, rest) = line.split_once(' ')?;
    let mut fields = rest.split_ascii_whitespace();
    let (rights, offset, device, number) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let path = fields.next()?;
    let is_memory = path == "/dev/zero" || path.starts_with("/memfd:") || path.starts_with("/SYSV");
    if !rights.ends_with('s') || !is_memory {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let parse = |text| u64::from_str_radix(text, 16).ok();
    let size = parse(offset)? + parse(end)?.checked_sub(parse(start)?)?;
    Some(((device.to_owned(), number.parse().ok()?), size))
}

impl UsedResources {
    /// Returns a message about the exceeded limit, or `None`.
    pub(super) fn describe_exceeded_limit(&self, rules: &SandboxRules) -> Option<String> {
        let allowed = u64::from(rules.processes);
        if self.processes > allowed {
            return Some(format!(
                "it had more than {allowed} processes at the same time; the limit is `processes: {allowed}`"
            ));
        }
        if self.threads > allowed.saturating_mul(MAX_THREADS_PER_PROCESS) {
            return Some(format!(
                "it had {} threads at the same time; `processes: {allowed}` allows {MAX_THREADS_PER_PROCESS} for each process",
                self.threads
            ));
        }
        let per_second = rustix::param::clock_ticks_per_second();
        if let Some(limit) = rules.cpu_seconds
            && self.ticks > limit.saturating_mul(per_second)
        {
            return Some(format!(
                "it used {} s of processor time; the limit is `cpu_seconds: {limit}`",
                self.ticks / per_second
            ));
        }
        if let Some(limit) = rules.memory
            && self.bytes > limit
        {
            return Some(format!(
                "its processes used {} bytes of memory; the limit is `memory: {limit}`",
                self.bytes
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(rows: &[(i32, u64, u64)]) -> HashMap<ProcessIdentity, ProcessStat> {
        let stat = |(pid, own, ticks_of_children): &(i32, u64, u64)| {
            let stat = ProcessStat {
                parent: 1,
                is_zombie: false,
                ticks: own + ticks_of_children,
                ticks_of_children: *ticks_of_children,
                threads: 1,
                started: 7,
            };
            ((*pid, 7), stat)
        };
        rows.iter().map(stat).collect()
    }

    #[test]
    fn time_is_counted_whoever_waits_for_a_process() {
        // Process 3 ends. Its parent 2 waits for it, or this process does, or no process does.
        for (own_of_parent, waited, expected) in [(45, 0, 55), (0, 42, 52), (0, 0, 50)] {
            let mut meter = ResourceMeter::default();
            assert_eq!(meter.add_and_total_ticks(measurement(&[(2, 10, 0), (3, 40, 0)]), 0), 50);
            assert_eq!(
                meter.add_and_total_ticks(measurement(&[(2, 10, own_of_parent)]), waited),
                expected
            );
            // It is counted once.
            assert_eq!(
                meter.add_and_total_ticks(measurement(&[(2, 11, own_of_parent)]), waited),
                expected + 1
            );
        }
    }

    #[test]
    fn rounded_times_do_not_add_up() {
        let mut meter = ResourceMeter::default();
        for _ in 0..100 {
            meter.add_and_total_ticks(measurement(&[(2, 0, 0), (3, 2, 0)]), 0);
            assert!(meter.add_and_total_ticks(measurement(&[(2, 0, 0)]), 0) < 3);
        }
    }

    #[test]
    fn shared_memory_is_found_in_the_maps() {
        let line = "7f00-8f00 rw-s 00001000 00:01 42                    /dev/zero (deleted)";
        assert_eq!(parse_shared_segment(line), Some((("00:01".to_owned(), 42), 0x2000)));
        for other in [
            "7f00-8f00 rw-p 00001000 00:01 42                    /dev/zero",
            "7f00-8f00 rw-s 00001000 08:01 42                    /home/x/file",
            "7f00-8f00 rw-p 00000000 00:00 0 ",
        ] {
            assert_eq!(parse_shared_segment(other), None, "{other}");
        }
        let status =
            "Name:\tx\nVmRSS:\t9 kB\nRssAnon:\t      1 kB\nRssFile:\t 2 kB\nRssShmem:\t 4 kB\nVmSwap:\t 8 kB\n";
        let expected = ProcessMemory {
            private: 11 << 10,
            shared: 4 << 10,
        };
        assert_eq!(parse_memory_status(status), expected);
    }
}

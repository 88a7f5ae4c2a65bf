//! How much memory may be taken now, and room that is claimed before it is taken.
//!
//! A size that a file or a recipe states is held against what there is before a byte is allocated: a system
//! that runs out of memory ends the process without a word.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::{Error, Result};

/// Left for all that is too small to be counted: stacks, buffers of libraries, the allocator's own.
const LEFT_FREE: u64 = 32 << 20;
/// Claims below this are let through and only added up: asking the system for each would take longer than
/// reading a small image.
const SMALL: u64 = 16 << 20;

/// Bytes that this process may still allocate: the least of what the machine has free, what its control group
/// leaves and what its resource limits (`ulimit -v`, `ulimit -d`) leave. `u64::MAX` where no system tells.
pub fn available() -> u64 {
    let read = |path: &str| fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").and_then(|text| kibibytes(&text, "MemAvailable:"));
    let groups = read("/proc/self/cgroup").map(|text| group_room(&text, Path::new("/sys/fs/cgroup")));
    let limits = read("/proc/self/limits").zip(read("/proc/self/status"));
    let limits = limits.map(|(limits, status)| limit_room(&limits, &status));
    let least = [machine, groups, limits].into_iter().flatten().min().unwrap_or(u64::MAX);
    if least == u64::MAX { least } else { least.saturating_sub(LEFT_FREE) }
}

/// Bytes that data may take and leave enough for what is made of them: a third of what is free.
pub fn comfortable() -> u64 {
    available() / 3
}

/// The number of bytes behind a name in `/proc/meminfo` or `/proc/self/status`.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// What the resource limits leave of the address space and of private memory.
fn limit_room(limits: &str, status: &str) -> u64 {
    let room = |limit: &str, used: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(limit))?;
        let most: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(most.saturating_sub(kibibytes(status, used)?))
    };
    let rooms = [room("Max address space", "VmSize:"), room("Max data size", "VmData:")];
    rooms.into_iter().flatten().min().unwrap_or(u64::MAX)
}

/// What the control groups of this process leave, those above it included; `listed` is `/proc/self/cgroup`.
fn group_room(listed: &str, root: &Path) -> u64 {
    let rooms = listed.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (root, names) = match controllers {
            "" => (root.to_owned(), ["memory.max", "memory.current"]),
            some if some.split(',').any(|one| one == "memory") => {
                (root.join("memory"), ["memory.limit_in_bytes", "memory.usage_in_bytes"])
            }
            _ => return None,
        };
        let inside = root.join(path.trim_start_matches('/'));
        // Inside a container the path is often one that only the host can see; the root is then its own.
        let folders = inside.ancestors().filter(|folder| folder.starts_with(&root));
        folders.filter_map(|folder| room_of_group(folder, names)).min()
    });
    rooms.min().unwrap_or(u64::MAX)
}

fn room_of_group(folder: &Path, [most, used]: [&str; 2]) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let most: u64 = read(most)?.trim().parse().ok()?;
    let used: u64 = read(used)?.trim().parse().ok()?;
    // Files that were read stay in memory as long as nobody else needs it, and are counted as used.
    let cached = read("memory.stat").and_then(|text| {
        let names = ["total_inactive_file ", "inactive_file "];
        names
            .iter()
            .find_map(|name| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()))
    });
    Some(most.saturating_sub(used.saturating_sub(cached.unwrap_or(0))))
}

/// Bytes that were promised to readers who have not yet taken them.
static PROMISED: Mutex<u64> = Mutex::new(0);
static GIVEN_BACK: Condvar = Condvar::new();
/// The sum of small claims since the system was last asked.
static UNASKED: AtomicU64 = AtomicU64::new(0);

/// Room that nobody else is promised until this is dropped. It is held while memory is being filled: from
/// then on the system counts it.
#[must_use = "the room is promised to others once this is dropped"]
#[derive(Debug)]
pub struct Room(u64);

impl Drop for Room {
    fn drop(&mut self) {
        if self.0 > 0 {
            *PROMISED.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
            GIVEN_BACK.notify_all();
        }
    }
}

/// Claims `bytes` for `what` (a file, a key), before they are allocated. Waits where others that are reading
/// now hold what would be enough. Whoever holds a [`Room`] must not claim another.
pub fn claim(what: &Path, bytes: u64) -> Result<Room> {
    let unasked = UNASKED.fetch_add(bytes.min(SMALL), Ordering::Relaxed);
    if bytes < SMALL && unasked + bytes < SMALL {
        return Ok(Room(0));
    }
    UNASKED.store(0, Ordering::Relaxed);
    let mut promised = PROMISED.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let available = available();
        if bytes <= available.saturating_sub(*promised) {
            *promised += bytes;
            return Ok(Room(bytes));
        }
        if *promised == 0 {
            return Err(Error::Memory { what: what.to_owned(), needed: bytes, available });
        }
        promised = GIVEN_BACK.wait(promised).unwrap_or_else(PoisonError::into_inner);
    }
}

/// An empty vector with room for `count` values, or an error that names `what`.
pub fn reserved<T>(what: &Path, count: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(count).map_err(|_| Error::Memory {
        what: PathBuf::from(what),
        needed: (count as u64).saturating_mul(size_of::<T>() as u64),
        available: available(),
    })?;
    Ok(values)
}

/// A number of bytes in words: `3.2 GiB`.
pub fn in_words(bytes: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tx\nVmSize:\t  2048 kB\nVmData:\t   512 kB\n";

    #[test]
    fn limits_leave_what_is_not_used() {
        let limits = |space: &str, data: &str| {
            format!(
                "Limit   Soft Limit  Hard Limit  Units\nMax data size   {data}  unlimited  bytes\n\
                 Max address space   {space}   unlimited   bytes\n"
            )
        };
        for (space, data, room) in [
            ("unlimited", "unlimited", u64::MAX),
            ("4194304", "unlimited", 2 << 20),
            ("unlimited", "1048576", 512 << 10),
            ("4194304", "1048576", 512 << 10),
            ("1", "unlimited", 0),
        ] {
            assert_eq!(limit_room(&limits(space, data), STATUS), room, "{space} {data}");
        }
    }

    #[test]
    fn the_tightest_group_counts_and_cached_files_do_not() {
        let root = tempfile::tempdir().unwrap();
        let group = |path: &str, files: &[(&str, &str)]| {
            let folder = root.path().join(path);
            fs::create_dir_all(&folder).unwrap();
            files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
        };
        group(
            "a",
            &[("memory.max", "1000\n"), ("memory.current", "700\n"), ("memory.stat", "inactive_file 200\n")],
        );
        group("a/b", &[("memory.max", "max\n"), ("memory.current", "600\n")]);
        group("a/c", &[("memory.max", "800\n"), ("memory.current", "600\n")]);
        group("memory", &[("memory.limit_in_bytes", "400"), ("memory.usage_in_bytes", "300")]);
        for (listed, room) in [
            ("0::/a/b\n", 500),
            ("0::/a/c\n", 200),
            ("0::/elsewhere\n", u64::MAX),
            ("4:cpu,memory:/only/the/host\n2:cpu:/a\n", 100),
            ("", u64::MAX),
        ] {
            assert_eq!(group_room(listed, root.path()), room, "{listed}");
        }
    }

    #[test]
    fn this_machine_has_memory_but_not_everything() {
        let available = available();
        assert!(available > 1 << 20, "{available}");
        drop(claim(Path::new("small.png"), 1000).unwrap());
        drop(claim(Path::new("larger.png"), 20 << 20).unwrap());
        if available < u64::MAX {
            let message = claim(Path::new("huge.nii"), u64::MAX / 2).unwrap_err().to_string();
            assert!(message.starts_with("huge.nii: needs 8589934592.0 GiB of memory, and "), "{message}");
        }
        let message = reserved::<f32>(Path::new("huge.nii"), 1 << 60).unwrap_err().to_string();
        assert!(message.starts_with("huge.nii: needs 4294967296.0 GiB"), "{message}");
    }

    #[test]
    fn a_promise_is_kept_from_others_until_it_is_given_back() {
        let available = available();
        if available == u64::MAX {
            return;
        }
        let most = available / 4 * 3;
        let first = claim(Path::new("a.nii"), most).unwrap();
        let second = std::thread::spawn(move || drop(claim(Path::new("b.nii"), most).unwrap()));
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(!second.is_finished(), "both were promised the same memory");
        drop(first);
        second.join().unwrap();
    }
}

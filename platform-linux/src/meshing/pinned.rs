//! Whether the kernel keeps pages of this process for long: buffers that were registered with `io_uring`, memory of devices.
//!
//! What is written there goes to the page that the address showed when it was registered. A mesh would show another in its place.

use crate::proc_file::{ProcFile, number_at_start};

/// How the line begins that counts such pages.
const NAME: &[u8] = b"VmPin:";

/// Whether there are such pages now. Some 30 microseconds; no, where the kernel does not tell.
pub(super) fn are_any() -> bool {
    let mut buffer = [0; 2048];
    // Of the thread: the main thread's tells nothing once it has ended.
    let text = ProcFile::open(c"/proc/thread-self/status").and_then(|file| file.read_up_to(&mut buffer));
    text.and_then(pinned).is_some_and(|kilobytes| kilobytes > 0)
}

/// The number in such a file's line.
fn pinned(text: &[u8]) -> Option<usize> {
    let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(NAME));
    number_at_start(line?)
}

#[cfg(test)]
mod tests {
    use super::{are_any, pinned};

    #[test]
    fn the_line_is_found() {
        assert_eq!(pinned(b"Name:\tVmPin: 3\nVmLck:\t      16 kB\nVmPin:\t     256 kB\nVmHWM:\t  7 kB\n"), Some(256));
        assert_eq!(pinned(b"Name:\tx\n"), None);
        assert_eq!(pinned(b""), None);
    }

    #[test]
    fn a_process_that_registers_nothing_has_none() {
        assert!(!are_any());
    }
}

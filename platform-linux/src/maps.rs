//! Where the process's mappings end, asked one by one.

use core::ffi::c_int;

use crate::calls;
use crate::descriptor::Descriptor;
use crate::errno::{Errno, check};

// Of the kernel's `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    /// Flags, page size, offset, inode.
    others: [u64; 4],
    /// Device, lengths of the name and of the build's number, for which nobody asks.
    lengths: [u32; 4],
    /// Where these would go.
    places: [u64; 2],
}

const QUERY: libc::Ioctl = libc::_IOWR::<Query>(b'f' as u32, 17);

/// The process's list of mappings.
pub(crate) struct Maps {
    list: Descriptor,
}

impl Maps {
    /// Opens the list, for a few questions.
    pub(crate) fn open() -> Result<Self, Errno> {
        let list = calls::open(c"/proc/thread-self/maps", libc::O_RDONLY | libc::O_CLOEXEC)?;
        Ok(Self { list: Descriptor::new(list) })
    }

    /// How many of `bytes` bytes from `address` on lie in one mapping. All, as far as a kernel before 6.11 knows, which cannot be
    /// asked.
    pub(crate) fn bytes_from(&self, address: usize, bytes: usize) -> Result<usize, Errno> {
        let mut query = Query { size: size_of::<Query>() as u64, address: address as u64, ..Query::default() };
        // SAFETY: the kernel reads and writes the query, which is of the kind and the size that it expects.
        match check(unsafe { libc::ioctl(self.list.number(), QUERY, &raw mut query) } as c_int) {
            Err(Errno(libc::ENOTTY)) => Ok(bytes),
            Err(errno) => Err(errno),
            Ok(_) => match usize::try_from(query.end).unwrap_or(usize::MAX).saturating_sub(address).min(bytes) {
                0 => Err(Errno(libc::EFAULT)),
                within => Ok(within),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Maps;
    use crate::{limits, mapping};
    use meshheap::Access;

    #[test]
    fn a_mapping_ends_where_the_next_begins() {
        let page = limits::page_bytes();
        let base = mapping::reserve(4 * page, page, page).expect("address space");
        // SAFETY: the second half of what was reserved just now.
        let half = unsafe { base.add(2 * page) };
        // SAFETY: as above; nobody uses it.
        unsafe { mapping::protect(half, 2 * page, Access::ReadOnly) }.expect("a mapping");
        let maps = Maps::open().expect("there is /proc");
        let start = base.addr().get();
        match maps.bytes_from(start, 3 * page).expect("it is mapped") {
            all if all == 3 * page => std::println!("not tested: the kernel cannot be asked"),
            within => {
                assert_eq!(within, 2 * page);
                assert_eq!(maps.bytes_from(start + page, 3 * page), Ok(page));
                assert_eq!(maps.bytes_from(start + 2 * page, page), Ok(page));
                // SAFETY: reserved above.
                unsafe { mapping::unmap(base, 4 * page) };
                assert!(maps.bytes_from(start, page).is_err());
            }
        }
    }
}

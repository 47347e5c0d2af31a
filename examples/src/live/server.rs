//! Snapshots over a socket of the file system: whoever connects gets one, as JSON, and the connection ends.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::fs;
use std::io::{self, Error, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use meshheap::{Heap, Platform};

use super::snapshot::Snapshot;

/// Who does not read for so long gets no snapshot.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where a program can be asked about its heap. The socket goes when this is dropped.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    is_stopped: AtomicBool,
}

impl Server {
    /// A server at `path`. A socket that a program left there is replaced.
    ///
    /// # Errors
    /// The socket cannot be made, or another program serves it.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && UnixStream::connect(path).is_err() => {
                fs::remove_file(path)?;
                UnixListener::bind(path)
            }
            other => other,
        }?;
        Ok(Self { listener, path: path.to_owned(), is_stopped: AtomicBool::new(false) })
    }

    /// Sends a snapshot of `heap` to whoever connects, until [`Server::stop`]: for a thread of its own.
    ///
    /// # Errors
    /// The socket is broken. Clients that go away are no error.
    pub fn serve<P: Platform>(&self, name: &str, heap: &Heap<P>) -> io::Result<()> {
        loop {
            let (client, _) = self.listener.accept()?;
            // Relaxed: the connection that `stop` makes comes after the flag.
            if self.is_stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
            // A client that went away, or does not read, has only itself to blame.
            let _ = send(client, &Snapshot::of(name, heap));
        }
    }

    /// Ends [`Server::serve`].
    ///
    /// # Errors
    /// The socket is gone, so that the serving thread cannot be woken.
    pub fn stop(&self) -> io::Result<()> {
        // Relaxed: see `serve`.
        self.is_stopped.store(true, Ordering::Relaxed);
        UnixStream::connect(&self.path).map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Somebody else may have removed it.
        let _ = fs::remove_file(&self.path);
    }
}

fn send(mut client: UnixStream, snapshot: &Snapshot) -> io::Result<()> {
    client.set_write_timeout(Some(PATIENCE))?;
    client.write_all(&serde_json::to_vec(snapshot)?)
}

/// A snapshot from the server at `path`.
///
/// # Errors
/// Nobody serves there, or what comes is no snapshot.
pub fn fetch(path: &Path) -> io::Result<Snapshot> {
    let mut json = Vec::new();
    UnixStream::connect(path)?.read_to_end(&mut json)?;
    serde_json::from_slice(&json).map_err(Error::from)
}

//! The threads that serve connections.

use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::Server;

/// Threads for connections: they wait more than they work.
const THREADS: usize = 2;
/// Threads that make images of bodies and answers of predictions; of volumes each takes long.
const MAKING: usize = 16;
/// How often it is looked whether the server shall end.
const LOOK: Duration = Duration::from_millis(50);
/// How long what is being made may take when all is over.
const REST: Duration = Duration::from_secs(1);

/// Answers whoever connects until `stop` is raised, and then what was asked; whether all of that was answered in time. The
/// listener does not block.
pub fn serve(server: &Server, listener: TcpListener, stop: &AtomicBool) -> io::Result<bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .max_blocking_threads(MAKING)
        .enable_io()
        .enable_time()
        .build()?;
    let complete = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let stopped = async {
            while !stop.load(Ordering::Relaxed) {
                tokio::time::sleep(LOOK).await;
            }
        };
        Ok(server.run(listener, stopped).await)
    });
    runtime.shutdown_timeout(REST);
    complete
}

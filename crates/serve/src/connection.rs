//! Connections: as many as allowed, none that stays silent for long, and an end in which what was asked is answered.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::Shared;

/// Most bytes of a request's line and headers.
const HEAD_BYTES: usize = 64 << 10;
/// Most headers.
const HEADERS: usize = 64;
/// How long is waited where the system has no connection to give.
const BREATH: Duration = Duration::from_millis(50);

/// Answers connections until `stop` is over, then those that are open; whether they ended in time.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shared: &Arc<Shared>,
    stop: impl Future<Output = ()>,
) -> bool {
    let limits = &shared.options.limits;
    let free = Arc::new(Semaphore::new(limits.connections));
    let (end, ended) = watch::channel(false);
    let mut open = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let next = async {
            let permit = free.clone().acquire_owned().await;
            (listener.accept().await, permit)
        };
        let (stream, permit) = tokio::select! {
            () = &mut stop => break,
            Some(_) = open.join_next() => continue,
            (accepted, permit) = next => match accepted {
                Ok((stream, _)) => (stream, permit),
                Err(_) => {
                    sleep(BREATH).await;
                    continue;
                }
            },
        };
        let (router, shared, ended) = (router.clone(), shared.clone(), ended.clone());
        open.spawn(async move {
            let _permit = permit;
            shared.metrics.connections.fetch_add(1, Ordering::Relaxed);
            answer(stream, router, &shared, ended).await;
            shared.metrics.connections.fetch_sub(1, Ordering::Relaxed);
        });
    }
    shared.ending.store(true, Ordering::Relaxed);
    drop(listener);
    let _ = end.send(true);
    let all = async { while open.join_next().await.is_some() {} };
    timeout(limits.grace, all).await.is_ok()
}

/// Answers the requests of one connection.
async fn answer(stream: TcpStream, router: Router, shared: &Shared, mut ended: watch::Receiver<bool>) {
    let limits = &shared.options.limits;
    // Small answers are not held back.
    let _ = stream.set_nodelay(true);
    let stream = TokioIo::new(Patient::new(stream, limits.silence));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .serve_connection(stream, TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    tokio::select! {
        // A connection that breaks off is its client's affair.
        _ = connection.as_mut() => return,
        _ = ended.wait_for(|ended| *ended) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// A stream that breaks off where its reader takes nothing for too long.
struct Patient {
    stream: TcpStream,
    patience: Duration,
    /// When patience ends, while a write waits.
    end: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn new(stream: TcpStream, patience: Duration) -> Self {
        Self { stream, patience, end: None }
    }

    /// Waits with a write that waits, but not for ever.
    fn waited<T>(&mut self, context: &mut Context, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.end = None;
            return polled;
        }
        let patience = self.patience;
        let end =
            self.end.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + patience)));
        ready!(end.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context, to: &mut ReadBuf) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, to)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.waited(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        parts: &[io::IoSlice],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.waited(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.waited(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.waited(context, polled)
    }
}

//! Bodies of requests, read with limits.
//!
//! Invariant: each body has a maximum size and a time limit, and all bodies of a server together have a maximum size.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body, Bytes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::guard::GuardRefusal;

/// Number of bytes that one permit covers.
const UNIT: usize = 1 << 10;

/// Limits on request bodies of a server: the size of one body, the size of all bodies, and the time to arrive.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    /// Maximum size of a body, in bytes.
    pub largest: usize,
    /// Maximum size of all bodies together, in bytes.
    pub total: usize,
    /// Time in which a body must arrive.
    pub timeout: Duration,
}

/// Reader of all request bodies of a server. Clones share the limit on the total size.
#[derive(Debug, Clone)]
pub struct BodyReader {
    limits: BodyLimits,
    budget: Arc<Semaphore>,
}

/// Body that was read, and that counts in the total size until it is dropped.
#[derive(Debug)]
pub struct ReadBody {
    bytes: Bytes,
    _permit: Option<OwnedSemaphorePermit>,
}

/// Error in reading a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// The body is larger than the limit.
    TooLarge,
    /// The body did not arrive in time.
    TooSlow,
    /// Too many bodies are being read.
    TooMany,
    /// The client has disconnected, or its data is no valid body.
    Broken,
}

impl From<BodyError> for GuardRefusal {
    fn from(error: BodyError) -> Self {
        let (status, code, message) = match error {
            BodyError::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too_large", "the request is too large"),
            BodyError::TooSlow => (
                StatusCode::REQUEST_TIMEOUT,
                "too_slow",
                "the body of the request did not arrive in time",
            ),
            BodyError::TooMany => return Self::BUSY,
            BodyError::Broken => (
                StatusCode::BAD_REQUEST,
                "bad_request",
                "the body of the request cannot be read",
            ),
        };
        Self { status, code, message }
    }
}

impl BodyReader {
    /// Creates the reader of a server.
    pub fn new(limits: BodyLimits) -> Self {
        Self {
            limits,
            budget: Arc::new(Semaphore::new(limits.total / UNIT)),
        }
    }

    /// Reads a body within the limits.
    ///
    /// # Errors
    /// See the variants of the error.
    pub async fn read_body<B: Body<Data = Bytes> + Unpin>(&self, body: B) -> Result<ReadBody, BodyError> {
        let read = tokio::time::timeout(self.limits.timeout, self.read_frames(body));
        read.await.unwrap_or(Err(BodyError::TooSlow))
    }

    /// Reads all frames of a body, and reserves their size in the total.
    async fn read_frames<B: Body<Data = Bytes> + Unpin>(&self, mut body: B) -> Result<ReadBody, BodyError> {
        let (mut bytes, mut permit) = (Vec::<u8>::new(), None::<OwnedSemaphorePermit>);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else {
                continue;
            };
            let length = bytes.len() + data.len();
            if length > self.limits.largest {
                return Err(BodyError::TooLarge);
            }
            let permits = permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let missing = length.div_ceil(UNIT).saturating_sub(permits);
            let more = u32::try_from(missing).map_err(|_| BodyError::TooLarge)?;
            let more = Arc::clone(&self.budget).try_acquire_many_owned(more);
            let more = more.map_err(|_| BodyError::TooMany)?;
            match &mut permit {
                Some(permit) => permit.merge(more),
                None => permit = Some(more),
            }
            bytes.extend_from_slice(&data);
        }
        Ok(ReadBody {
            bytes: bytes.into(),
            _permit: permit,
        })
    }
}

impl ReadBody {
    /// Returns the bytes of the body.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes without a copy. The bytes count in the total size only as long as this body exists.
    pub fn to_bytes(&self) -> Bytes {
        self.bytes.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{StreamExt, stream};
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    fn reader() -> BodyReader {
        BodyReader::new(BodyLimits {
            largest: 8 << 10,
            total: 12 << 10,
            timeout: Duration::from_secs(3),
        })
    }

    fn full(bytes: usize) -> Full<Bytes> {
        Full::new(vec![b'x'; bytes].into())
    }

    #[tokio::test]
    async fn a_body_has_a_size_and_all_bodies_together_have_one() {
        let reader = reader();
        assert_eq!(reader.read_body(full(0)).await.expect("it is read").as_bytes(), b"");
        assert_eq!(
            reader.read_body(full((8 << 10) + 1)).await.err(),
            Some(BodyError::TooLarge)
        );
        let one = reader.read_body(full(8 << 10)).await.expect("it is read");
        assert_eq!(one.as_bytes().len(), 8 << 10);
        assert_eq!(
            reader.read_body(full((4 << 10) + 1)).await.err(),
            Some(BodyError::TooMany)
        );
        let _other = reader.read_body(full(4 << 10)).await.expect("it is read");
        drop(one);
        assert!(reader.read_body(full(8 << 10)).await.is_ok(), "the size is given back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_a_time_and_a_slow_one_holds_nothing_afterwards() {
        let reader = reader();
        for _ in 0..3 {
            let beginning = stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; 8 << 10])))]);
            let slow = StreamBody::new(beginning.chain(stream::pending()));
            assert_eq!(reader.read_body(slow).await.err(), Some(BodyError::TooSlow));
        }
        assert!(reader.read_body(full(8 << 10)).await.is_ok());
    }
}

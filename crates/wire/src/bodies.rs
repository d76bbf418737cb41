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
const BYTES_PER_PERMIT: usize = 1 << 10;

/// Limits on request bodies of a server: the size of one body, the size of all bodies, and the time to arrive.
#[derive(Debug, Clone, Copy)]
pub struct BodyReadLimits {
    /// Maximum size of a body, in bytes.
    pub largest: usize,
    /// Maximum size of all bodies together, in bytes.
    pub total: usize,
    /// Time in which a body must arrive.
    pub timeout: Duration,
}

/// Reader of all request bodies of a server. Clones share the limit on the total size.
#[derive(Debug, Clone)]
pub struct LimitedBodyReader {
    limits: BodyReadLimits,
    budget: Arc<Semaphore>,
}

/// Body that was read, and that counts in the total size until it is dropped.
#[derive(Debug)]
pub struct BudgetedBody {
    bytes: Bytes,
    _permit: Option<OwnedSemaphorePermit>,
}

/// Error in reading a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyReadError {
    /// The body is larger than the limit.
    TooLarge,
    /// The body did not arrive in time.
    TooSlow,
    /// Too many bodies are being read.
    TooMany,
    /// The client has disconnected, or its data is no valid body.
    Broken,
}

impl From<BodyReadError> for GuardRefusal {
    fn from(error: BodyReadError) -> Self {
        let (status, code, message) = match error {
            BodyReadError::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too_large", "the request is too large"),
            BodyReadError::TooSlow => (
                StatusCode::REQUEST_TIMEOUT,
                "too_slow",
                "the body of the request did not arrive in time",
            ),
            BodyReadError::TooMany => return Self::BUSY,
            BodyReadError::Broken => (
                StatusCode::BAD_REQUEST,
                "bad_request",
                "the body of the request cannot be read",
            ),
        };
        Self { status, code, message }
    }
}

impl LimitedBodyReader {
    /// Creates the reader of a server.
    pub fn new(limits: BodyReadLimits) -> Self {
        Self {
            limits,
            budget: Arc::new(Semaphore::new(limits.total / BYTES_PER_PERMIT)),
        }
    }

    /// Reads a body within the limits.
    ///
    /// # Errors
    /// See the variants of the error.
    pub async fn read_body<B: Body<Data = Bytes> + Unpin>(&self, body: B) -> Result<BudgetedBody, BodyReadError> {
        let read = tokio::time::timeout(self.limits.timeout, self.read_within_size_limits(body));
        read.await.unwrap_or(Err(BodyReadError::TooSlow))
    }

    /// Reads all frames of a body, and reserves their size in the total.
    async fn read_within_size_limits<B: Body<Data = Bytes> + Unpin>(
        &self,
        mut body: B,
    ) -> Result<BudgetedBody, BodyReadError> {
        let (mut bytes, mut permit) = (Vec::<u8>::new(), None::<OwnedSemaphorePermit>);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| BodyReadError::Broken)?.into_data() else {
                continue;
            };
            let length = bytes.len() + data.len();
            if length > self.limits.largest {
                return Err(BodyReadError::TooLarge);
            }
            let permits = permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let missing = length.div_ceil(BYTES_PER_PERMIT).saturating_sub(permits);
            let more = u32::try_from(missing).map_err(|_| BodyReadError::TooLarge)?;
            let more = Arc::clone(&self.budget).try_acquire_many_owned(more);
            let more = more.map_err(|_| BodyReadError::TooMany)?;
            match &mut permit {
                Some(permit) => permit.merge(more),
                None => permit = Some(more),
            }
            bytes.extend_from_slice(&data);
        }
        Ok(BudgetedBody {
            bytes: bytes.into(),
            _permit: permit,
        })
    }
}

impl BudgetedBody {
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

    fn reader() -> LimitedBodyReader {
        LimitedBodyReader::new(BodyReadLimits {
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
            Some(BodyReadError::TooLarge)
        );
        let one = reader.read_body(full(8 << 10)).await.expect("it is read");
        assert_eq!(one.as_bytes().len(), 8 << 10);
        assert_eq!(
            reader.read_body(full((4 << 10) + 1)).await.err(),
            Some(BodyReadError::TooMany)
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
            assert_eq!(reader.read_body(slow).await.err(), Some(BodyReadError::TooSlow));
        }
        assert!(reader.read_body(full(8 << 10)).await.is_ok());
    }
}

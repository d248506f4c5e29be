//! Classifies errors of Rust's libraries: by their types, where a feature names the library, and by core's table of
//! numbers.

use std::any::Any;
use std::error::Error as StdError;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use tidegate::errors::{DEEPEST, class_of_errno};
use tidegate::{Class, Outcome};

use crate::Failure;
use crate::classify::Finding;

type Dyn = dyn StdError + 'static;

/// The classification of one error in a chain of causes.
pub(crate) enum Known {
    /// This error decides.
    Is(Finding),
    /// The error's cause decides if it is known; otherwise this class does.
    #[cfg_attr(
        not(any(feature = "http", feature = "redis", feature = "reqwest")),
        expect(dead_code, reason = "only errors of libraries wrap others")
    )]
    Wraps(Class),
    /// The error is unknown.
    Nothing,
}

/// The error decides, by its type or its number. A permanent one has a note that says so (semantics 1.5.15).
const fn is(class: Class) -> Known {
    Known::Is(match class {
        Class::Permanent => Finding::Unlisted,
        class => Finding::Outcome(Outcome::of(class)),
    })
}

/// Iterates over an error and its causes, up to the depth of semantics 1.5.13. `source` skips the error in an
/// `io::Error` and the one in an `Arc`; this does not.
pub(crate) fn chain(error: &Dyn) -> impl Iterator<Item = &Dyn> {
    let mut next = Some(error);
    let causes = std::iter::from_fn(move || {
        let error = next?;
        let error = error.downcast_ref::<Arc<dyn StdError + Send + Sync>>().map_or(error, |it| &**it as &Dyn);
        next = match error.downcast_ref::<io::Error>().map(io::Error::get_ref) {
            Some(Some(inner)) => Some(inner),
            _ => error.source(),
        };
        Some(error)
    });
    causes.take(DEEPEST)
}

/// The finding about an error, by itself and its causes.
pub(crate) fn found_in(error: &Dyn) -> Finding {
    let mut wrapper = None;
    for error in chain(error) {
        match known(error) {
            Known::Is(finding) => return finding,
            Known::Wraps(class) => wrapper = Some(class), // the innermost one is the cause of the others
            Known::Nothing => {}
        }
    }
    wrapper.map_or(Finding::Unlisted, |class| Finding::Outcome(Outcome::of(class)))
}

/// The first of these views of an error of a call of a policy inside, whose own error is of a listed library.
macro_rules! inside {
    ($error:ident, $view:expr) => {
        inside!(
            $error, $view,
            io::Error,
            tokio::time::error::Elapsed,
            #[cfg(feature = "grpc")]
            tonic::Status,
            #[cfg(feature = "http")]
            hyper::Error,
            #[cfg(feature = "http")]
            hyper_util::client::legacy::Error,
            #[cfg(feature = "redis")]
            redis::RedisError,
            #[cfg(feature = "reqwest")]
            reqwest::Error,
            #[cfg(feature = "reqwest-middleware")]
            reqwest_middleware::Error,
        )
    };
    ($error:ident, $view:expr, $($(#[$gate:meta])* $own:ty),* $(,)?) => { $(
        $(#[$gate])*
        if let Some(it) = $error.downcast_ref::<crate::Error<$own>>() {
            return $view(it);
        }
    )* };
}

/// The error in a value of any type, if its type is one of those that hold errors.
pub(crate) fn viewed<E: 'static>(value: &E) -> Option<&Dyn> {
    let value: &dyn Any = value;
    macro_rules! first {
        ($($view:expr),* $(,)?) => { None$(.or_else(|| $view))* };
    }
    let held = first!(
        value.downcast_ref::<Box<dyn StdError + Send + Sync>>().map(|it| &**it as &Dyn),
        value.downcast_ref::<Box<dyn StdError + Send>>().map(|it| &**it as &Dyn),
        value.downcast_ref::<Box<dyn StdError>>().map(|it| &**it as &Dyn),
        value.downcast_ref::<io::Error>().map(|it| it as &Dyn),
        value.downcast_ref::<tokio::time::error::Elapsed>().map(|it| it as &Dyn),
    );
    #[cfg(feature = "tower")]
    let held = held
        .or_else(|| value.downcast_ref::<tower::timeout::error::Elapsed>().map(|it| it as &Dyn))
        .or_else(|| value.downcast_ref::<tower::load_shed::error::Overloaded>().map(|it| it as &Dyn));
    #[cfg(feature = "anyhow")]
    let held = held.or_else(|| value.downcast_ref::<anyhow::Error>().map(|it| it.as_ref() as &Dyn));
    #[cfg(feature = "http")]
    let held = held
        .or_else(|| value.downcast_ref::<hyper::Error>().map(|it| it as &Dyn))
        .or_else(|| value.downcast_ref::<hyper_util::client::legacy::Error>().map(|it| it as &Dyn));
    #[cfg(feature = "reqwest")]
    let held = held.or_else(|| value.downcast_ref::<reqwest::Error>().map(|it| it as &Dyn));
    #[cfg(feature = "reqwest-middleware")]
    let held = held.or_else(|| value.downcast_ref::<reqwest_middleware::Error>().map(|it| it as &Dyn));
    #[cfg(feature = "redis")]
    let held = held.or_else(|| value.downcast_ref::<redis::RedisError>().map(|it| it as &Dyn));
    #[cfg(feature = "grpc")]
    let held = held.or_else(|| value.downcast_ref::<tonic::Status>().map(|it| it as &Dyn));
    if held.is_none() {
        inside!(value, Some);
    }
    held
}

/// Classifies this error without its causes.
fn known(error: &Dyn) -> Known {
    if let Some(stopped) = error.downcast_ref::<crate::Stopped>() {
        return Known::Is(Finding::Outcome(stopped.outcome()));
    }
    if let Some(ended) = error.downcast_ref::<crate::error::Ended>() {
        return Known::Is(Finding::Outcome(ended.stopped.outcome()));
    }
    if let Some(mark) = error.downcast_ref::<crate::error::Mark>() {
        return Known::Is(Finding::Outcome(mark.0.outcome()));
    }
    inside!(error, |it: &dyn Failure| Known::Is(it.finding()));
    if error.is::<tokio::time::error::Elapsed>() {
        return is(Class::Timeout);
    }
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return of_io(error);
    }
    #[cfg(feature = "tower")]
    if error.is::<tower::timeout::error::Elapsed>() {
        return is(Class::Timeout);
    }
    // Refused on this side, so it is no evidence about the upstream.
    #[cfg(feature = "tower")]
    if error.is::<tower::load_shed::error::Overloaded>() {
        return is(Class::Conflict);
    }
    #[cfg(feature = "grpc")]
    if let Some(status) = error.downcast_ref::<tonic::Status>() {
        return crate::grpc::of_status(status);
    }
    #[cfg(feature = "grpc")]
    if error.is::<tonic::ConnectError>() {
        return is(Class::NeverSent);
    }
    #[cfg(feature = "grpc")]
    if error.is::<tonic::TimeoutExpired>() {
        return is(Class::Timeout);
    }
    #[cfg(feature = "reqwest")]
    if let Some(error) = error.downcast_ref::<reqwest::Error>() {
        return of_reqwest(error);
    }
    // It has the causes of the error in it, and not that error itself.
    #[cfg(feature = "reqwest-middleware")]
    if let Some(error) = error.downcast_ref::<reqwest_middleware::Error>() {
        return Known::Is(error.finding());
    }
    #[cfg(feature = "http")]
    if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
        // The causes do not show it: a name that cannot be resolved has no kind.
        return if error.is_connect() { is(Class::NeverSent) } else { Known::Nothing };
    }
    #[cfg(feature = "http")]
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        return of_hyper(error);
    }
    #[cfg(feature = "redis")]
    if let Some(error) = error.downcast_ref::<redis::RedisError>() {
        return of_redis(error);
    }
    Known::Nothing
}

/// Start of the message for names that could not be resolved; std gives them no kind.
const UNRESOLVED: &str = "failed to lookup address information";

fn of_io(error: &io::Error) -> Known {
    if let Some(class) = errno(error).and_then(class_of_errno) {
        return is(class);
    }
    match error.kind() {
        // The peer closed the connection within a response, or accepts no more bytes.
        ErrorKind::UnexpectedEof | ErrorKind::WriteZero => is(Class::Transient),
        // An error that wraps another is judged by the inner one.
        _ if error
            .get_ref()
            .is_some_and(|inner| inner.source().is_some() || !matches!(known(inner), Known::Nothing)) =>
        {
            Known::Nothing
        }
        _ if error.to_string().starts_with(UNRESOLVED) => is(Class::NeverSent),
        ErrorKind::Other => Known::Nothing,
        _ => is(Class::Permanent),
    }
}

/// The name of the error's number in the operating system's table, for errors that may be retryable.
fn errno(error: &io::Error) -> Option<&'static str> {
    Some(match error.kind() {
        ErrorKind::ConnectionRefused => "ECONNREFUSED",
        ErrorKind::HostUnreachable => "EHOSTUNREACH",
        ErrorKind::NetworkUnreachable => "ENETUNREACH",
        ErrorKind::NetworkDown => "ENETDOWN",
        ErrorKind::AddrNotAvailable => "EADDRNOTAVAIL",
        ErrorKind::ConnectionReset => "ECONNRESET",
        ErrorKind::ConnectionAborted => "ECONNABORTED",
        ErrorKind::NotConnected => "ENOTCONN",
        ErrorKind::BrokenPipe => "EPIPE",
        ErrorKind::TimedOut => "ETIMEDOUT",
        ErrorKind::WouldBlock => "EAGAIN",
        ErrorKind::Interrupted => "EINTR",
        ErrorKind::ResourceBusy => "EBUSY",
        _ => return unnamed(error.raw_os_error()?),
    })
}

/// Names of numbers for which std has no kind.
const fn unnamed(number: i32) -> Option<&'static str> {
    let (down, reset, shutdown, buffers) = if cfg!(any(target_os = "linux", target_os = "android")) {
        (112, 102, 108, 105)
    } else if cfg!(target_vendor = "apple") {
        (64, 52, 58, 55)
    } else if cfg!(windows) {
        (10_064, 10_052, 10_058, 10_055)
    } else {
        return None;
    };
    Some(match number {
        _ if number == down => "EHOSTDOWN",
        _ if number == reset => "ENETRESET",
        _ if number == shutdown => "ESHUTDOWN",
        _ if number == buffers => "ENOBUFS",
        _ => return None,
    })
}

#[cfg(feature = "reqwest")]
fn of_reqwest(error: &reqwest::Error) -> Known {
    if error.is_connect() {
        return is(Class::NeverSent);
    }
    if let Some(status) = error.status() {
        return Known::Is(Finding::Status(status.as_u16(), Vec::new()));
    }
    if error.is_builder() || error.is_redirect() {
        return is(Class::Permanent);
    }
    if error.is_timeout() {
        return is(Class::Timeout);
    }
    if error.is_request() || error.is_body() { Known::Wraps(Class::Transient) } else { Known::Nothing }
}

#[cfg(feature = "http")]
fn of_hyper(error: &hyper::Error) -> Known {
    if error.is_parse() || error.is_user() {
        is(Class::Permanent)
    } else if error.is_closed() {
        is(Class::NeverSent)
    } else if error.is_timeout() {
        is(Class::Timeout)
    } else {
        // Broken streams and connections; the reason is among the causes.
        Known::Wraps(Class::Transient)
    }
}

#[cfg(feature = "redis")]
fn of_redis(error: &redis::RedisError) -> Known {
    if error.is_connection_refusal() {
        return is(Class::NeverSent);
    }
    if error.is_timeout() {
        return is(Class::Timeout);
    }
    match error.code() {
        // The server is starting or runs a long script, or the cluster moves slots or elects a primary.
        Some("LOADING" | "BUSY" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "READONLY") => {
            is(Class::Transient)
        }
        _ if error.is_connection_dropped() || error.is_io_error() => Known::Wraps(Class::Transient),
        _ => is(Class::Permanent),
    }
}

//! Errors of plain functions: the table by which every host classifies them (semantics 1.5).
//!
//! This is data. `cargo run -p tidegate-generate` writes it into the sources of each host and into `docs/errors.md`; hosts in Rust read
//! it here. To teach all languages a library's error, add its name to the file of its language (`python`, `javascript`,
//! `jvm`, `swift`), run the generator, and raise the error in a test of that language.

mod javascript;
mod jvm;
mod python;
mod swift;

pub use javascript::{IN_PAGES, JAVASCRIPT};
pub use jvm::JVM;
pub use python::PYTHON;
pub use swift::{URL_ERRORS, UrlError};

use crate::outcome::Class;

/// How many errors of a chain of causes are looked at, the error itself included.
pub const DEEPEST: usize = 8;

/// The note of an error that nothing in the table knows as one that may pass. A host replaces `{error}` by the name of the error's type and `{on}`
/// by the way to repeat such errors.
pub const NOTE: &str =
    "not retried: {error} is not listed as an error that may pass; to repeat it: {on}, or classify";

/// Where hosts look for a status, in this order: names of attributes, or paths of them. A status is a whole number from 400 to 599.
pub const STATUS_PATHS: &[&str] = &[
    "status",
    "status_code",
    "statusCode",
    "http_status",
    "code",
    "response.status",
    "response.status_code",
    "response.statusCode",
    "$metadata.httpStatusCode",
    "response.ResponseMetadata.HTTPStatusCode",
];

/// Where hosts look for the headers that belong to a status.
pub const HEADER_PATHS: &[&str] =
    &["headers", "response.headers", "$response.headers", "response.ResponseMetadata.HTTPHeaders"];

/// The errors of one library.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// What its users call it.
    pub name: &'static str,
    /// What stands before the names: top-level modules in Python, packages on the JVM, nothing in JavaScript; divided by blanks.
    pub roots: &'static str,
    /// What its errors mean.
    pub rules: &'static [Rule],
}

/// Errors that mean the same.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Their class.
    pub class: Class,
    /// Does a cause that is known decide instead of this class?
    pub wraps: bool,
    /// The names of their types (in JavaScript also their codes), divided by blanks.
    pub names: &'static str,
}

/// Errors of this class.
const fn is(class: Class, names: &'static str) -> Rule {
    Rule { class, wraps: false, names }
}

/// Errors that wrap another one, which decides if it is known; else they are of this class.
const fn wraps(class: Class, names: &'static str) -> Rule {
    Rule { class, wraps: true, names }
}

impl Rule {
    /// The names, one by one.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.split_ascii_whitespace()
    }
}

/// Errors of the operating system by the names of their numbers. Any other number is permanent.
pub const ERRNOS: &[Rule] = &[
    is(
        Class::NeverSent,
        "ECONNREFUSED EHOSTUNREACH ENETUNREACH ENETDOWN EHOSTDOWN EADDRNOTAVAIL \
         WSAECONNREFUSED WSAEHOSTUNREACH WSAENETUNREACH WSAENETDOWN WSAEHOSTDOWN",
    ),
    is(
        Class::Transient,
        "ECONNRESET ECONNABORTED EPIPE ENOTCONN ENETRESET ESHUTDOWN EAGAIN EWOULDBLOCK EINTR EBUSY ENOBUFS \
         WSAECONNRESET WSAECONNABORTED WSAENOTCONN WSAENETRESET WSAESHUTDOWN WSAEWOULDBLOCK WSAENOBUFS",
    ),
    is(Class::Timeout, "ETIMEDOUT WSAETIMEDOUT"),
];

/// The class of an error of the operating system by the name of its number (`ECONNRESET`), if it may pass.
pub fn class_of_errno(name: &str) -> Option<Class> {
    class_in(ERRNOS, name)
}

/// SQLSTATEs of databases, or their first two characters where the whole class of states means the same.
pub const SQLSTATES: &[Rule] = &[
    is(Class::NeverSent, "08001 08004 53300 57P03"),
    is(Class::Transient, "08 53 57P01 57P02 58"),
    is(Class::Timeout, "HYT00 HYT01"),
    is(Class::Conflict, "40 55P03"),
];

/// The class of a database's error by its SQLSTATE, if it may pass.
///
/// ```
/// use tidegate::{Class, errors::class_of_sqlstate};
/// assert_eq!(class_of_sqlstate("40P01"), Some(Class::Conflict)); // a deadlock
/// assert_eq!(class_of_sqlstate("08006"), Some(Class::Transient)); // the connection broke
/// assert_eq!(class_of_sqlstate("23505"), None); // a unique key is there already
/// ```
pub fn class_of_sqlstate(state: &str) -> Option<Class> {
    if state.len() != 5 {
        return None;
    }
    class_in(SQLSTATES, state).or_else(|| class_in(SQLSTATES, state.get(..2)?))
}

/// Error numbers of `MySQL` and `MariaDB`, of drivers that have no SQLSTATE.
pub const MYSQL: &[Rule] = &[
    is(Class::NeverSent, "1040 1203 2002 2003 2005"),
    is(Class::Transient, "1053 1077 1078 1079 1080 2006 2013 2055"),
    is(Class::Conflict, "1205 1213"),
];

/// The class of an error of `MySQL` by its number, if it may pass.
pub fn class_of_mysql(number: u16) -> Option<Class> {
    let is_number = |name: &str| name.parse() == Ok(number);
    MYSQL.iter().find(|rule| rule.names().any(is_number)).map(|rule| rule.class)
}

/// The top-level modules of Python's drivers of `MySQL`: the first argument of their errors is such a number.
pub const MYSQL_ROOTS: &str = "pymysql MySQLdb aiomysql asyncmy mysql";

/// Names of `SQLite`'s error codes.
pub const SQLITE: &[Rule] = &[is(
    Class::Conflict,
    "SQLITE_BUSY SQLITE_BUSY_RECOVERY SQLITE_BUSY_SNAPSHOT SQLITE_BUSY_TIMEOUT SQLITE_LOCKED SQLITE_LOCKED_SHAREDCACHE",
)];

/// Codes by which AWS services ask for less load, often with status 400. Such an answer is judged as a 429.
pub const THROTTLING_CODES: &str = "BandwidthLimitExceeded EC2ThrottledException LimitExceededException PriorRequestNotComplete \
     ProvisionedThroughputExceededException RequestLimitExceeded RequestThrottled RequestThrottledException SlowDown \
     ThrottledException Throttling ThrottlingException TooManyRequestsException TransactionInProgressException";

/// What a code of gRPC means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grpc {
    /// The same as this HTTP status, so that the policy's `statuses` hold for it.
    Status(u16),
    /// An outcome of this class.
    Class(Class),
}

/// The codes of gRPC by their numbers, with the HTTP status that `google.rpc.Code` gives them; three have no equal there.
pub const GRPC: [(&str, Grpc); 17] = [
    ("OK", Grpc::Class(Class::Ok)),
    ("CANCELLED", Grpc::Class(Class::Ignored)),
    ("UNKNOWN", Grpc::Status(500)),
    ("INVALID_ARGUMENT", Grpc::Status(400)),
    ("DEADLINE_EXCEEDED", Grpc::Status(504)),
    ("NOT_FOUND", Grpc::Status(404)),
    ("ALREADY_EXISTS", Grpc::Status(409)),
    ("PERMISSION_DENIED", Grpc::Status(403)),
    ("RESOURCE_EXHAUSTED", Grpc::Status(429)),
    ("FAILED_PRECONDITION", Grpc::Status(400)),
    ("ABORTED", Grpc::Class(Class::Conflict)),
    ("OUT_OF_RANGE", Grpc::Status(400)),
    ("UNIMPLEMENTED", Grpc::Class(Class::Permanent)),
    ("INTERNAL", Grpc::Status(500)),
    ("UNAVAILABLE", Grpc::Status(503)),
    ("DATA_LOSS", Grpc::Status(500)),
    ("UNAUTHENTICATED", Grpc::Status(401)),
];

/// What a code of gRPC means; numbers above 16 are `UNKNOWN`.
///
/// ```
/// use tidegate::errors::{Grpc, grpc};
/// assert_eq!(grpc(14), Grpc::Status(503)); // UNAVAILABLE
/// ```
pub fn grpc(code: u32) -> Grpc {
    let known = usize::try_from(code).ok().and_then(|code| GRPC.get(code));
    known.map_or(Grpc::Status(500), |(_, meaning)| *meaning)
}

fn class_in(rules: &[Rule], wanted: &str) -> Option<Class> {
    rules.iter().find(|rule| rule.names().any(|name| name == wanted)).map(|rule| rule.class)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Semantics 1.5.9 and 1.5.11.
    #[test]
    fn numbers_that_are_not_listed_are_not_known_to_pass() {
        assert_eq!(class_of_errno("ECONNREFUSED"), Some(Class::NeverSent));
        assert_eq!(class_of_errno("EPIPE"), Some(Class::Transient));
        assert_eq!(class_of_errno("ETIMEDOUT"), Some(Class::Timeout));
        for name in ["ENOENT", "EACCES", "EINVAL", "EPERM", "ENOSPC", "", "ECONN"] {
            assert_eq!(class_of_errno(name), None, "{name}");
        }
        assert_eq!(class_of_sqlstate("08001"), Some(Class::NeverSent));
        assert_eq!(class_of_sqlstate("53100"), Some(Class::Transient));
        for state in ["", "08", "42601", "0é00", "080011"] {
            assert_eq!(class_of_sqlstate(state), None, "{state}");
        }
        assert_eq!(class_of_mysql(1213), Some(Class::Conflict));
        assert_eq!(class_of_mysql(1045), None);
    }

    /// Semantics 1.5.6: core's own table of HTTP decides, so every status here has to be one that it knows as a failure.
    #[test]
    fn every_grpc_code_is_an_http_status_or_a_class() {
        for (name, meaning) in GRPC {
            if let Grpc::Status(status) = meaning {
                assert!((400..600).contains(&status), "{name}");
            }
        }
        assert_eq!(grpc(17), Grpc::Status(500));
        assert_eq!(grpc(u32::MAX), Grpc::Status(500));
    }

    #[test]
    fn no_table_says_two_things_of_one_name() {
        let families = [PYTHON, JAVASCRIPT, JVM];
        for family in families.into_iter().flatten() {
            assert!(!family.rules.is_empty(), "{}", family.name);
        }
        for language in families {
            let mut seen = BTreeMap::new();
            for family in language {
                for root in family.roots.split(' ') {
                    for name in family.rules.iter().flat_map(Rule::names) {
                        let before = seen.insert((root, name), family.name);
                        assert_eq!(before, None, "{root} {name} in {}", family.name);
                    }
                }
            }
        }
        for rules in [ERRNOS, SQLSTATES, MYSQL] {
            let mut names: Vec<_> = rules.iter().flat_map(Rule::names).collect();
            names.sort_unstable();
            let all = names.len();
            names.dedup();
            assert_eq!(names.len(), all);
        }
    }
}

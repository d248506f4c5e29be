//! Codes of Foundation's `URLError`. Any other code is permanent.

use crate::outcome::Class::{self, Ignored, NeverSent, Timeout, Transient};

/// A code of `URLError`.
#[derive(Clone, Copy, Debug)]
pub struct UrlError {
    /// Its number, which every platform has.
    pub code: i32,
    /// Its name in Swift.
    pub name: &'static str,
    /// What it means.
    pub class: Class,
}

const fn code(code: i32, name: &'static str, class: Class) -> UrlError {
    UrlError { code, name, class }
}

/// The codes that are not permanent. `unknown` is how Foundation on Linux says that a body broke off; errors of certificates stay permanent.
pub const URL_ERRORS: &[UrlError] = &[
    code(-1, "unknown", Transient),
    code(-999, "cancelled", Ignored),
    code(-1001, "timedOut", Timeout),
    code(-1003, "cannotFindHost", NeverSent),
    code(-1004, "cannotConnectToHost", NeverSent),
    code(-1005, "networkConnectionLost", Transient),
    code(-1006, "dnsLookupFailed", NeverSent),
    code(-1008, "resourceUnavailable", Transient),
    code(-1009, "notConnectedToInternet", NeverSent),
    code(-1011, "badServerResponse", Transient),
    code(-1014, "zeroByteResource", Transient),
    code(-1017, "cannotParseResponse", Transient),
    code(-1018, "internationalRoamingOff", NeverSent),
    code(-1019, "callIsActive", NeverSent),
    code(-1020, "dataNotAllowed", NeverSent),
    code(-1200, "secureConnectionFailed", Transient),
    code(-2000, "cannotLoadFromNetwork", Transient),
    code(-3006, "downloadDecodingFailedMidStream", Transient),
    code(-3007, "downloadDecodingFailedToComplete", Transient),
];

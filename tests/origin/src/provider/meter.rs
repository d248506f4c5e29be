//! What a key may still use: buckets of requests and tokens, and a quota in all.

use super::failure::{Failed, Kind};
use super::plan::Limits;
use super::request::Api;
use hyper::HeaderMap;
use hyper::header::HeaderValue;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A bucket that is full after `per_s` seconds, and holds what these bring.
struct Bucket {
    limit: f64,
    per_s: f64,
    level: f64,
    at: f64,
}

impl Bucket {
    fn new(limit: u64, per_s: f64, t: f64) -> Self {
        Self { limit: limit as f64, per_s, level: limit as f64, at: t }
    }

    /// Seconds until `amount` is there.
    fn wait(&mut self, t: f64, amount: f64) -> f64 {
        self.level = (self.level + (t - self.at).max(0.0) * self.limit / self.per_s).min(self.limit);
        self.at = self.at.max(t);
        ((amount - self.level) * self.per_s / self.limit).max(0.0)
    }

    /// Seconds until it is full.
    fn reset(&mut self, t: f64) -> f64 {
        self.wait(t, self.limit)
    }
}

/// What one key has left.
pub(crate) struct Account {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    quota: Option<u64>,
}

impl Account {
    pub(crate) fn new(limits: &Limits, t: f64) -> Self {
        let bucket = |limit: Option<u64>| limit.map(|limit| Bucket::new(limit, limits.per_s, t));
        Self { requests: bucket(limits.requests), tokens: bucket(limits.tokens), quota: limits.quota }
    }

    /// Takes a request and its tokens, or nothing.
    pub(crate) fn take(&mut self, t: f64, input: u64, output: u64) -> Result<(), Failed> {
        let amount = (input + output) as f64;
        if self.quota.is_some_and(|quota| quota < input + output) {
            return Err(Failed::new(Kind::QuotaSpent, None));
        }
        if let Some(tokens) = self.tokens.as_ref().filter(|tokens| tokens.limit < amount) {
            return Err(Failed {
                measure: "tokens",
                ..Failed::new(Kind::TooLarge(tokens.limit as u64), None)
            });
        }
        for (bucket, amount, measure) in
            [(&mut self.requests, 1.0, "requests"), (&mut self.tokens, amount, "tokens")]
        {
            if let Some(wait) =
                bucket.as_mut().map(|bucket| bucket.wait(t, amount)).filter(|wait| *wait > 0.0)
            {
                return Err(Failed { measure, ..Failed::new(Kind::Throttled, Some(wait)) });
            }
        }
        for (bucket, amount) in [(&mut self.requests, 1.0), (&mut self.tokens, amount)] {
            if let Some(bucket) = bucket {
                bucket.level -= amount;
            }
        }
        if let Some(quota) = &mut self.quota {
            *quota -= input + output;
        }
        Ok(())
    }

    /// Tells what is left, in the headers of the interface. Google has none.
    pub(crate) fn headers(&mut self, t: f64, api: Api, headers: &mut HeaderMap) {
        for (measure, bucket) in [("requests", &mut self.requests), ("tokens", &mut self.tokens)] {
            let Some(bucket) = bucket else { continue };
            let limit = bucket.limit as u64;
            let reset = bucket.reset(t);
            let left = bucket.level.max(0.0) as u64;
            let said: Vec<(String, String)> = match api {
                Api::Chat | Api::Responses => vec![
                    (format!("x-ratelimit-limit-{measure}"), limit.to_string()),
                    (format!("x-ratelimit-remaining-{measure}"), left.to_string()),
                    (format!("x-ratelimit-reset-{measure}"), go_duration(reset)),
                ],
                Api::Messages => vec![
                    (format!("anthropic-ratelimit-{measure}-limit"), limit.to_string()),
                    (format!("anthropic-ratelimit-{measure}-remaining"), left.to_string()),
                    (format!("anthropic-ratelimit-{measure}-reset"), rfc3339(reset)),
                ],
                Api::Gemini => Vec::new(),
            };
            for (name, value) in said {
                let name = hyper::header::HeaderName::try_from(name).expect("the names above are headers");
                headers.insert(name, HeaderValue::try_from(value).expect("the values above are ASCII"));
            }
        }
    }
}

/// As Go prints a span, in whole milliseconds, rounded up: `6m0s`, `1.5s`, `250ms`.
pub(crate) fn go_duration(seconds: f64) -> String {
    let ms = (seconds * 1e3).ceil() as u64;
    if ms < 1000 {
        return if ms == 0 { "0s".to_owned() } else { format!("{ms}ms") };
    }
    let (minutes, rest) = (ms / 60_000, ms % 60_000);
    let hours = if minutes >= 60 { format!("{}h", minutes / 60) } else { String::new() };
    let minutes = if ms >= 60_000 { format!("{}m", minutes % 60) } else { String::new() };
    let part = if rest % 1000 == 0 { String::new() } else { format!(".{:03}", rest % 1000) };
    format!("{hours}{minutes}{}{}s", rest / 1000, part.trim_end_matches('0'))
}

/// The moment `seconds` from now, as Anthropic writes it, rounded up to a second.
fn rfc3339(seconds: f64) -> String {
    let moment = SystemTime::now() + Duration::from_secs_f64(seconds);
    let unix = moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64().ceil() as u64;
    let (days, second) = (unix / 86_400, unix % 86_400);
    // A year that begins in March has its leap day at its end (Howard Hinnant's civil_from_days).
    let shifted = days + 719_468;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + shifted / 146_097 * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_written_as_go_prints_them() {
        for (seconds, text) in [
            (0.0, "0s"),
            (0.25, "250ms"),
            (1.5, "1.5s"),
            (59.001, "59.001s"),
            (360.0, "6m0s"),
            (3723.0, "1h2m3s"),
            (3600.0, "1h0m0s"),
        ] {
            assert_eq!(go_duration(seconds), text);
        }
    }

    #[test]
    fn a_bucket_fills_with_time_and_no_further_than_its_limit() {
        let mut bucket = Bucket::new(60, 60.0, 0.0);
        bucket.level = 0.0;
        assert!((bucket.wait(1.0, 2.0) - 1.0).abs() < 1e-9);
        assert!(bucket.wait(1e6, 60.0) == 0.0 && bucket.level <= 60.0);
    }

    #[test]
    fn a_request_takes_all_or_nothing() {
        let limits = Limits { requests: Some(10), tokens: Some(100), per_s: 60.0, quota: Some(150) };
        let mut account = Account::new(&limits, 0.0);
        account.take(0.0, 40, 40).expect("80 of 100");
        let failed = account.take(0.0, 20, 10).expect_err("20 are left");
        assert_eq!((failed.kind, failed.measure), (Kind::Throttled, "tokens"));
        assert!((failed.wait.unwrap() - 6.0).abs() < 1e-6);
        assert!(
            (account.requests.as_ref().unwrap().level - 9.0).abs() < 1e-9,
            "the refused one took no request"
        );
        assert_eq!(account.take(60.0, 100, 1).unwrap_err().kind, Kind::QuotaSpent);
        assert_eq!(account.take(60.0, 50, 20).map_err(|failed| failed.kind), Ok(()));
    }
}

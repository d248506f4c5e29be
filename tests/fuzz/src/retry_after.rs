//! `Retry-After` and its relatives: any bytes, any headers, any wall clock (semantics 2.8, I15, I25).

use tidegate::{Class, Duration, Engine, Hints, HttpFailure, Opinion, Options, Policy, Value, WallTime};
use tidegate::{class_of_status, parse_retry_after};

use crate::input::Input;

const LONGEST: Duration = Duration::from_micros((1 << 53) - 1);

const NAMES: [&[u8]; 12] = [
    b"retry-after",
    b"Retry-After",
    b"retry-after-ms",
    b"x-ms-retry-after-ms",
    b"x-amz-retry-after",
    b"grpc-retry-pushback-ms",
    b"ratelimit",
    b"ratelimit-reset",
    b"x-ratelimit-reset",
    b"X-RateLimit-Reset",
    b"x-should-retry",
    b"content-length",
];

/// Values that the headers may have, so that no mutation has to invent a date.
const VALUES: [&[u8]; 10] = [
    b"120",
    b"-1",
    b"true",
    b"false",
    b"Sun, 06 Nov 1994 08:49:37 GMT",
    b"Sunday, 06-Nov-94 08:49:37 GMT",
    b"Sun Nov  6 08:49:37 1994",
    b"\"default\";r=0;t=5",
    b"1800000005",
    b"99999999999999999999",
];

/// Takes some headers and a wall clock; then a single value from all remaining bytes.
pub fn retry_after(data: &[u8]) {
    let mut input = Input::new(data);
    let wall = match input.below(4) {
        0 => WallTime::from_unix_micros(784_111_770_500_000),
        1 => WallTime::from_unix_micros(1_800_000_000_000_000),
        _ => WallTime::from_unix_micros(input.word()),
    };
    let (status, named) = (input.word() as u16, input.below(5));
    let headers: Vec<(&[u8], &[u8])> = (0..named)
        .map(|_| {
            let name = if input.chance(20) { input.bytes(20) } else { input.of(&NAMES) };
            let value = if input.chance(128) { input.of(&VALUES) } else { input.bytes(70) };
            (name, value)
        })
        .collect();
    headers_say_a_span_or_nothing(&headers, status, wall);
    value_is_a_span_or_absent(input.rest(), wall);
}

fn headers_say_a_span_or_nothing(headers: &[(&[u8], &[u8])], status: u16, wall: WallTime) {
    for throttled in [false, true] {
        let hints = Hints::read(headers, throttled, wall);
        assert!(hints.retry_after.is_none_or(|span| span <= LONGEST), "{hints:?}");
        let silent = headers
            .iter()
            .all(|(name, _)| !NAMES[..NAMES.len() - 1].iter().any(|known| known.eq_ignore_ascii_case(name)));
        assert!(!silent || hints == Hints::default(), "{hints:?} of headers that say nothing");
        // A further header never revokes "do not retry".
        if hints.opinion == Opinion::DoNot {
            let more: Vec<_> = headers.iter().copied().chain([(NAMES[10], VALUES[2])]).collect();
            assert_eq!(Hints::read(&more, throttled, wall).opinion, Opinion::DoNot);
        }
        // The longest of equal headers counts, so their order does not matter.
        let turned: Vec<_> = headers.iter().rev().copied().collect();
        assert_eq!(Hints::read(&turned, throttled, wall), hints);
    }
    let mut engine = Engine::new(1, Options::default());
    let policy = Policy::from_pairs("p", &[("preset", Value::Text("http"))]).expect("a preset");
    let policy = engine.policy(policy).expect("the first policy");
    let outcome = engine.classify_read(policy, &HttpFailure { status, headers }, b"", wall);
    assert_eq!(outcome.kind.class(), Some(class_of_status(status)));
    assert!(class_of_status(status) != Class::Ok || outcome.retry_after.is_none());
}

fn value_is_a_span_or_absent(value: &[u8], wall: WallTime) {
    let span = parse_retry_after(value, wall);
    assert!(span.is_none_or(|span| span <= LONGEST), "{span:?}");
    // Blanks around a value do not matter, and neither does repeating it.
    let blank = [b" \t", value, b"\t "].concat();
    assert_eq!(parse_retry_after(&blank, wall), span);
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    assert!(!digits || span.is_some(), "digits are seconds, however many");
    if digits && value.len() <= 9 {
        let number = value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        assert_eq!(span, Some(Duration::from_secs(number)));
    }
    if span.is_some() && !digits && !value.contains(&b'-') {
        // A date: the wait is the difference to the wall clock, and a later clock never waits longer.
        let later = WallTime::from_unix_micros(wall.as_unix_micros().saturating_add(1_000_000));
        assert!(parse_retry_after(value, later) <= span);
    }
    let hints = Hints::read(&[(b"retry-after", value)], false, wall);
    assert_eq!(hints.retry_after, span);
}

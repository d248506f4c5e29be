//! What answers of metered services say: any status, headers and body (semantics 15).

use tidegate::answer::{
    Estimate, EventStream, Factors, Failure, Measure, Quotas, READ_AT_MOST, UNCOUNTED, Usage, UsageReader,
    parse_go_duration, parse_rfc3339,
};
use tidegate::{Duration, WallTime};

use crate::input::Input;

const LONGEST: Duration = Duration::from_micros((1 << 53) - 1);

const NAMES: [&[u8]; 8] = [
    b"x-ratelimit-limit-requests",
    b"x-ratelimit-remaining-requests",
    b"x-ratelimit-reset-requests",
    b"X-RateLimit-Remaining-Tokens",
    b"X-RateLimit-Reset-Tokens",
    b"anthropic-ratelimit-input-tokens-remaining",
    b"anthropic-ratelimit-output-tokens-reset",
    b"x-amzn-errortype",
];

const VALUES: [&[u8]; 8] = [
    b"0",
    b"59",
    b"6m0s",
    b"1.5s",
    b"2026-11-23T09:30:00Z",
    b"1800000005",
    b"ThrottlingException:http://x",
    b"-1",
];

/// Takes some headers, a wall clock and a status; then a body from all remaining bytes.
pub fn answer(data: &[u8]) {
    let mut input = Input::new(data);
    let wall = if input.chance(128) {
        WallTime::from_unix_micros(1_795_426_200_000_000)
    } else {
        WallTime::from_unix_micros(input.word())
    };
    let (status, named) = (input.word() as u16 % 600, input.below(5));
    let headers: Vec<(&[u8], &[u8])> = (0..named)
        .map(|_| {
            let name = if input.chance(20) { input.bytes(40) } else { input.of(&NAMES) };
            let value = if input.chance(128) { input.of(&VALUES) } else { input.bytes(70) };
            (name, value)
        })
        .collect();
    quotas_are_spans_and_numbers_or_nothing(&headers, wall);
    let body = input.rest();
    a_failure_is_read_from_any_body(status, &headers, body);
    a_stream_says_the_same_however_it_is_cut(body, usize::from(status % 7) + 1);
    a_usage_is_the_same_however_it_is_cut(body, usize::from(status % 7) + 1);
}

fn quotas_are_spans_and_numbers_or_nothing(headers: &[(&[u8], &[u8])], wall: WallTime) {
    let quotas = Quotas::read(headers, wall);
    for measure in Measure::ALL {
        let quota = quotas.get(measure);
        assert!(quota.reset.is_none_or(|span| span <= LONGEST), "{quota:?}");
        // Of several lines the more careful one counts, so another line never promises more, or an earlier reset.
        let name = format!("x-ratelimit-remaining-{}", measure.name());
        let more: Vec<_> = headers.iter().copied().chain([(name.as_bytes(), &b"7"[..])]).collect();
        assert!(Quotas::read(&more, wall).get(measure).remaining <= quota.remaining.or(Some(7)));
    }
    let turned: Vec<_> = headers.iter().rev().copied().collect();
    assert_eq!(Quotas::read(&turned, wall), quotas, "the order of lines does not matter");
    for (_, value) in headers {
        assert!(parse_go_duration(value).is_none_or(|span| span <= LONGEST));
        let _ = parse_rfc3339(value);
    }
}

fn a_failure_is_read_from_any_body(status: u16, headers: &[(&[u8], &[u8])], body: &[u8]) {
    let failure = Failure::read(status, headers, body);
    assert!(status < 400 || failure.is_some(), "a failed status is a failure");
    let Some(failure) = failure else { return };
    assert!(failure.retry_after.is_none_or(|span| span <= LONGEST), "{failure:?}");
    // What stands behind the border, or is no JSON, changes nothing.
    if body.len() < READ_AT_MOST {
        let mut long = body.to_vec();
        long.resize(READ_AT_MOST, b' ');
        long.extend_from_slice(b"{\"code\": \"insufficient_quota\"}");
        assert_eq!(Failure::read(status, headers, &long), Some(failure));
    }
}

fn a_stream_says_the_same_however_it_is_cut(body: &[u8], size: usize) {
    let whole = EventStream::new(UNCOUNTED).read(body);
    let mut stream = EventStream::new(UNCOUNTED);
    let pieces: Vec<_> = body.chunks(size).map(|piece| stream.read(piece)).collect();
    assert_eq!(pieces.iter().any(|piece| piece.counts), whole.counts);
    assert_eq!(pieces.iter().rev().find_map(|piece| piece.failure), whole.failure);
}

fn a_usage_is_the_same_however_it_is_cut(body: &[u8], size: usize) {
    let whole = Usage::read(body);
    let mut reader = UsageReader::new();
    let mut before = Usage::default();
    for piece in body.chunks(size) {
        reader.read(piece);
        let now = reader.usage();
        assert!(now.output >= before.output && now.cached >= before.cached, "totals only grow");
        before = now;
    }
    assert_eq!(reader.usage(), whole);
    let numbers = [whole.input, whole.cached, whole.output, whole.weight(Factors::TOKENS)];
    assert!(numbers.iter().all(|number| number.is_none_or(|number| number < 1 << 53)), "{whole:?}");
    let estimate = Estimate::read(b"/v1/messages", body);
    assert!(estimate.input >= 1 && estimate.weight(u64::MAX, Factors::TOKENS) < 1 << 53);
}

//! Policy documents: any text gets an answer at a bounded cost, and a document that was read prints and reads back as
//! the same (I25).

use tidegate::{Document, Domain, PolicyError, TABLE};

use crate::input::Input;

/// The longest document, in bytes (semantics 0.8).
const LARGEST: usize = 256 * 1024;

/// Lines of documents from which a mutation can start: most are legal, some are illegal together.
const LINES: &[&str] = &[
    "[policy.a]",
    "[policy.\"b c\"]",
    "[pool.db]",
    "preset = \"http\"",
    "deadline = \"10s\"",
    "kinds = { quota = \"throttled\" }",
    "retry = { max_attempts = 3, retry_on = [\"timeout\", \"quota\"], budget = { kind = \"share\" } }",
    "retry.backoff = { kind = \"polynomial\", exponent = 2, jitter = \"bounded\", jitter_ratio = 0.2 }",
    "bulkhead = { max_concurrency = 10, max_queue = \"none\", queue_target = \"5ms\" }",
    "bulkhead = { pool = \"db\", acquire_timeout = \"100ms\" }",
    "rate_limit = { permits = 100, per = \"1s\", wait = true, max_wait = \"1.5s\" }",
    "breaker = { failure_ratio = 0.5, window = \"10s\", min_throughput = 20, break_duration = \"5s\" }",
    "throttle.k = 2",
    "hedge.delay = \"50ms\"",
    "policy = { p = { preset = \"nothing\" } }",
    "[[policy]]",
    "policy.p.retry.statuses = [503, 429, 200]",
];

/// Takes a text unchanged, or a printed document with some damage, or a large one.
pub fn documents(data: &[u8]) {
    let mut input = Input::new(data);
    match input.below(8) {
        0 | 1 => answered(&String::from_utf8_lossy(input.rest())),
        2 => large(&mut input),
        _ => {
            let lines: Vec<String> = (0..1 + input.below(8)).map(|_| line(&mut input)).collect();
            damaged(&mut input, lines.join("\n"));
        }
    }
}

/// A line of a document: one of `LINES`, or any key of the table with a value that it may or may not accept.
fn line(input: &mut Input<'_>) -> String {
    if input.chance(110) {
        return input.of(LINES).to_owned();
    }
    let key = input.of(TABLE);
    let word = match key.domain {
        Domain::Choice(words) | Domain::Words(words) | Domain::KindWords(words) if !words.is_empty() => {
            format!("{:?}", input.of(words))
        }
        _ => "\"none\"".to_owned(),
    };
    let value = match input.below(8) {
        0 => format!("{:?}", input.real()),
        1 => input.word().to_string(),
        2 | 3 => format!("\"{}{}\"", input.count(), input.of(&["us", "ms", "s", "m", "h", "d", ""])),
        4 => "true".to_owned(),
        5 => format!("[{word}]"),
        _ => word,
    };
    format!("policy.a.{} = {value}", key.path)
}

fn damaged(input: &mut Input<'_>, mut text: String) {
    answered(&text);
    if input.chance(160) {
        // Starts from a printed document, all of whose lines are legal.
        let legal = Document::from_toml(&text).or_else(|_| Document::from_toml(&LINES[..5].join("\n")));
        let legal = legal.unwrap_or_default();
        text = if input.chance(128) { legal.to_json() } else { legal.to_toml() };
    }
    for _ in 0..input.below(4) {
        let place =
            (0..=input.below(text.len() + 1)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        match input.below(4) {
            0 => text.truncate(place),
            1 => {
                text.insert(place, input.of(&['"', '{', '}', '[', ']', '.', '=', '\n', '\0', 'é', '-', '9']))
            }
            2 => text.insert_str(place, &String::from_utf8_lossy(input.bytes(12))),
            _ => drop((place < text.len()).then(|| text.remove(place))),
        }
    }
    answered(&text);
}

/// A long document: deep, wide, or with one long value. The cost is bounded by the length, which is bounded; a harness
/// that times its inputs notices violations.
fn large(input: &mut Input<'_>) {
    let times = [10, 100, 1_000, 5_000][input.below(4)];
    if input.chance(30) {
        // Many policies with one mistake each.
        let many = (0..times.min(1_200)).map(|n| format!("policy.p{n}.retyr.max = 1\n"));
        return answered(&many.collect::<String>());
    }
    let (before, again, after) = match input.below(8) {
        0 => ("policy.a.retry = ".into(), "[", String::new()),
        1 => ("policy.a = ".into(), "{ a = ", String::new()),
        2 => (String::new(), "{\"policy\":", String::new()),
        3 => ("policy.a.preset = \"".into(), "ht", "\"".into()),
        4 => ("policy.a.retry.statuses = [".into(), "503,", "]".into()),
        5 => (String::new(), "policy", ".a.preset = \"http\"".into()),
        6 => (String::new(), "policy.a.retry.max_atempts = 0\n", String::new()),
        _ => (line(input), "\n", line(input)),
    };
    let text = format!("{before}{}{after}", again.repeat(times));
    answered(&text);
}

/// Every text is read or refused with reasons; a document that was read prints, and the print reads as the same.
fn answered(text: &str) {
    for read in [Document::from_toml, Document::from_json] {
        match read(text) {
            Ok(document) => {
                assert!(text.len() <= LARGEST, "longer than a document may be");
                prints_and_reads_back(&document);
            }
            Err(errors) => told(&errors, text),
        }
    }
}

fn prints_and_reads_back(document: &Document) {
    for (text, read) in [
        (document.to_toml(), Document::from_toml as fn(&str) -> Result<Document, Vec<PolicyError>>),
        (document.to_json(), Document::from_json),
    ] {
        let again = read(&text).unwrap_or_else(|errors| panic!("{}\n{text}", errors[0]));
        assert_eq!(&again, document, "{text}");
    }
}

fn told(errors: &[PolicyError], text: &str) {
    assert!(!errors.is_empty(), "refused without a word");
    let lines = text.lines().count().max(1) + 1;
    for error in errors {
        assert!(!error.rule.is_empty() && !error.key.is_empty(), "{error:?}");
        assert!(error.line.is_none_or(|line| line >= 1 && line as usize <= lines), "{error:?}");
        // What an error quotes is clipped, so that no text makes a log of its own size.
        assert!(
            error.value.len() <= 1_000 && error.to_string().len() <= 8_000,
            "{} bytes",
            error.to_string().len()
        );
    }
}

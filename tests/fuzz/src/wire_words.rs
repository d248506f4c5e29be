//! Words of the numeric border: any number is refused, or is read as something that packs to a stable word
//! (architecture, "Words").

use tidegate::{
    Action, CallId, Duration, Engine, Event, Options, PathId, Policy, PolicyId, Request, RouteId, Step, Time,
    Value, Verdict, wire,
};

use crate::input::Input;

const SPAN: u64 = (1 << 31) - 1;

/// Reads words as steps, events and requests; then gives all of them to an engine.
pub fn wire_words(data: &[u8]) {
    let mut input = Input::new(data);
    let mut engine = Engine::new(input.word(), Options::default());
    let pairs = [("preset", Value::Text("http")), ("bulkhead.max_concurrency", Value::Number(1.0))];
    let policy = engine.policy(Policy::from_pairs("p", &pairs).expect("valid")).expect("the first policy");
    let route = engine.route(policy, "r", Time::from_micros(0));
    let (mut calls, mut now) = (vec![0], 0);
    for _ in 0..200 {
        if input.is_empty() {
            break;
        }
        let word = masked(&mut input);
        words_read_back_or_are_refused(word, input.word());
        let at = Time::from_micros(now);
        match input.below(6) {
            0 => now = word,
            1 => {
                let known = input.of(&[route.to_word(), word]);
                let (remaining, parent) = (input.word(), input.of(&calls));
                if let Some(request) = wire::unpack_request(word & 0x7f_ffff, remaining, parent, input.word())
                {
                    let (call, step) = engine.begin(RouteId::from_word(known), &request, at);
                    words_agree(step);
                    calls.push(call.to_word());
                }
            }
            2 => drop(engine.force_open(PolicyId::from_word(word as u32), None, word >> 32 & 1 == 1, at)),
            3 => {
                let path = engine.path_id(RouteId::from_word(word), "/a/b", at);
                assert_eq!(PathId::from_word(path.to_word()), path);
            }
            _ => {
                let id = input.of(&[input_call(&calls, word), word]);
                let known = calls.contains(&(id & ((1 << 53) - 1)));
                let event = wire::unpack_event(input.word() & 0x1_ffff_ffff_ffff);
                let event = event.unwrap_or(if word & 1 == 0 { Event::Timer } else { Event::Poll });
                let step = engine.on(CallId::from_word(id), event, at);
                words_agree(step);
                let stale = matches!(step.action(), Action::Done { verdict: Verdict::Stale, .. });
                assert!(known || stale, "{step:?} for a call that never was");
            }
        }
        if let Err(law) = engine.check() {
            panic!("{law}");
        }
    }
}

fn input_call(calls: &[u64], word: u64) -> u64 {
    calls[word as usize % calls.len()]
}

/// Any word, often one with few bits set.
fn masked(input: &mut Input<'_>) -> u64 {
    let bits = input.of(&[64, 53, 49, 23, 22, 12, 5, 3]);
    input.word() & (u64::MAX >> (64 - bits))
}

/// Every step of the engine packs, and its word unpacks to the same step, apart from the units of spans.
fn words_agree(step: Step) {
    let word = wire::pack_step(step);
    assert!(word < 1 << 53, "{step:?}");
    let back =
        wire::unpack_step(word).unwrap_or_else(|| panic!("{step:?} packs to {word}, which is no step"));
    assert_eq!((back.stop(), back.flags()), (step.stop(), step.flags()));
    match (step.action(), back.action()) {
        (Action::Done { retry_in, .. }, Action::Done { retry_in: read, .. }) => {
            assert_eq!(read.is_some(), retry_in.is_some());
            assert!(retry_in.is_none_or(|span| read >= Some(span.min(Duration::from_millis(SPAN - 1)))));
        }
        (action, read) => {
            assert_eq!(action, read);
            assert_eq!(back.next(), step.next().map(|span| span.min(Duration::from_micros(SPAN - 1))));
        }
    }
}

fn words_read_back_or_are_refused(word: u64, other: u64) {
    if let Some(step) = wire::unpack_step(word) {
        let again = wire::pack_step(step);
        assert_eq!(wire::unpack_step(again), Some(step));
        assert_eq!(wire::pack_step(step), again);
        // Only a Done's slot bits express "none" in more than one way, and a word has at most 53 bits.
        assert!(word < 1 << 53);
        assert_eq!(again, word, "{step:?}");
    }
    if let Some(event) = wire::unpack_event(word) {
        assert_eq!(wire::pack_event(event), word, "{event:?}");
    }
    if let Some(request) = wire::unpack_request(word, other, other, word) {
        let [flags, remaining, parent, target] = wire::pack_request(&request);
        assert_eq!(flags, word);
        assert_eq!(remaining, other.min((1 << 53) - 1));
        assert_eq!((parent, target), (other & ((1 << 53) - 1), word & ((1 << 53) - 1)));
        let again: Option<Request> = wire::unpack_request(flags, remaining, parent, target);
        assert_eq!(
            again.map(|request| wire::pack_request(&request)),
            Some([flags, remaining, parent, target])
        );
    }
}

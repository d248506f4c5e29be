//! A whole engine under any policies and any script of events: checks the engine's invariants, and every rule that a
//! host can observe (architecture, R1 to R12; semantics).

mod changes;
#[path = "../../../core/tests/clock/mod.rs"]
mod clock;
mod host;
mod settings;
mod wide;

use tidegate::{
    CallId, Criticality, Duration, Event, Kind, Opinion, Outcome, PathId, PolicyId, Request, RouteId, wire,
};

use crate::input::Input;
use host::Host;

/// Makes policies and pools, then sends events. At the end the host behaves correctly, and nothing may be left behind.
pub fn engine(data: &[u8]) {
    play(data, false);
}

/// The same with components of every kind, and with changes of them while calls are in flight: retunes to any other
/// settings, policies that leave and come back, restarts.
pub fn changes(data: &[u8]) {
    play(data, true);
}

fn play(data: &[u8], wide: bool) {
    let mut input = Input::new(data);
    let mut host = Host::new(&mut input, wide);
    for _ in 0..150 {
        if input.is_empty() {
            break;
        }
        if !wide || !changes::act(&mut host, &mut input) {
            act(&mut host, &mut input);
        }
        host.check();
    }
    host.drain();
}

fn act(host: &mut Host, input: &mut Input<'_>) {
    match input.below(32) {
        0..=7 => begin(host, input),
        8..=12 => {
            let span = input.of(&[1_000, 50_000, 100_000, 0, 1, 1_000_000, 200_000, 5_000_000, 61_000_000]);
            host.pass(if input.chance(8) { input.micros() >> 12 } else { span });
        }
        13 => {
            let reading = host.reading;
            host.reading = match input.below(4) {
                0 => reading.saturating_sub(9_999),
                1 => reading.saturating_sub(7_200_000_000),
                2 => reading.saturating_sub(input.micros()),
                _ => reading.saturating_add(input.micros() >> 8),
            };
            host.look();
        }
        14..=18 => on(host, input, Event::Poll),
        19 | 20 => on(host, input, Event::Timer),
        21 => on(host, input, Event::Cancel),
        22..=27 => finish(host, input),
        28 => {
            if let Some(n) = call(host, input) {
                let attempt = host.calls[n].attempts;
                let age = Duration::from_micros(input.word() & 0xff_ffff);
                let head = input.chance(128);
                let event = if head { Event::Headers { attempt } } else { Event::Progress { attempt, age } };
                host.send(n, event);
            }
        }
        29 => {
            // An invented id and an invented word.
            let id =
                CallId::from_word(if input.chance(128) { input.word() } else { input.word() & 0x1f00_000f });
            let event = wire::unpack_event(input.word() >> 15).unwrap_or(Event::Cancel);
            host.forged(id, event);
        }
        30 => {
            let policy = input.below(host.policies.len());
            let key = input.chance(128).then(|| input.below(2));
            host.force(policy, key, input.chance(110));
        }
        _ => match input.below(8) {
            0 => host.fork(input.word()),
            1..=4 => host.retune(input.below(8), input),
            5 => host.retune_pool(input),
            6 => {
                let path = String::from_utf8_lossy(input.bytes(40)).into_owned();
                let route = RouteId::from_word(input.word());
                let _ = host.engine.path_id(route, &path, host.now());
            }
            _ => {
                let policy = PolicyId::from_word(input.word() as u32);
                let route = host.engine.route(policy, "k", host.now());
                let flags = host.engine.force_open(policy, Some(route), true, host.now());
                assert!(
                    !flags.commands && !host.engine.retries_method(policy, "GET") || policy.to_word() < 9
                );
                if policy.to_word() < 9 {
                    let _ = host.engine.force_open(policy, Some(route), false, host.now());
                }
            }
        },
    }
}

/// One of the calls, most often the youngest. Ended calls are included, because hosts make mistakes.
fn call(host: &Host, input: &mut Input<'_>) -> Option<usize> {
    let ago = input.below(12);
    host.calls.len().checked_sub(ago + 1)
}

fn on(host: &mut Host, input: &mut Input<'_>, event: Event) {
    if let Some(n) = call(host, input) {
        host.send(n, event);
    }
}

fn finish(host: &mut Host, input: &mut Input<'_>) {
    let Some(n) = call(host, input) else { return };
    let kind = Kind::new(input.of(&[1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 31])).expect("below 32");
    let more = input.byte();
    let outcome = Outcome {
        kind,
        opinion: [Opinion::None, Opinion::None, Opinion::Retry, Opinion::DoNot][usize::from(more & 3)],
        retry_after: (more >> 4 == 0 && more & 4 != 0).then(|| input.span()),
    };
    let known = &host.calls[n];
    let attempt = match more >> 2 & 7 {
        6 => known.running.first().copied().unwrap_or(known.attempts),
        7 => input.byte(),
        _ => known.attempts,
    };
    host.send(n, Event::Finished { attempt, outcome });
}

fn begin(host: &mut Host, input: &mut Input<'_>) {
    let (policy, key) = (input.below(host.policies.len()), input.of(&[0, 0, 0, 1]));
    let (flags, more) = (input.byte(), input.byte());
    let parent = (more & 3 == 3).then(|| call(host, input)).flatten();
    let classes =
        [Criticality::Normal, Criticality::BestEffort, Criticality::Degraded, Criticality::Critical];
    // Most requests may do everything; each bit that is set takes a permission away.
    let request = Request {
        remaining: (more >> 2 & 3 == 3).then(|| Duration::from_micros(input.micros())),
        parent: parent.map(|n| host.calls[n].id),
        path: PathId::NONE,
        criticality: classes[usize::from(flags & 3)],
        replayable: flags & 0b1_1100 != 0b1_1100,
        idempotent: flags & 0b1010_0100 != 0b1010_0100,
        abortable: flags & 0b10_0000 == 0,
        may_park: flags & 0b1100_0000 != 0b1100_0000,
        slot_until_body: flags & 0b1000_0000 != 0,
        solo: flags & 0b1000_1001 == 0b1000_1001,
        stream: flags & 0b0100_0010 == 0b0100_0010,
        cost: [1, 1, 2, 0, 5, 1, 1, u16::MAX][usize::from(more >> 4 & 7)],
    };
    let path = (more >> 7 == 1).then(|| input.of(&["/a/b/c/d", "/a/b/c/e", "/a/x", "/", ""]));
    host.begin((policy, key), request, parent, path);
}

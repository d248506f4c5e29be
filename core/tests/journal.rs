//! The journal (semantics 12.2): what was put in gives the same answers again, byte for byte, also by way of text.
#![allow(clippy::disallowed_methods, reason = "a test reads its vectors")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::world::{Op, POLICIES, World, op};
use proptest::prelude::*;
use serde_json::Value as Json;
use tidegate::fleet::{CommandId, KeptReply, StoreKind};
use tidegate::{
    Action, Answer, CallId, Engine, Event, Input, Kind, Link, Opinion, Options, Outcome, PathId, Policy,
    PolicyId, Pool, PoolKind, Record, Request, RouteId, Time, Value, Verdict, wire,
};

fn journaled() -> Options {
    Options::default().journal(true)
}

fn taken(engine: &mut Engine) -> Vec<Input> {
    let mut inputs = Vec::new();
    engine.take_journal(&mut inputs);
    inputs
}

fn records(engine: &mut Engine) -> Vec<Record> {
    let mut records = Vec::new();
    engine.take_records(&mut records);
    records
}

/// Inputs by way of their text.
fn written(inputs: &[Input]) -> Vec<Input> {
    inputs
        .iter()
        .map(|input| {
            let line = input.to_string();
            let read = line.parse().unwrap_or_else(|e| panic!("{line}: {e}"));
            assert_eq!(&read, input, "{line}");
            read
        })
        .collect()
}

/// The words of a replay's steps, and the ids that it gave.
fn words(answers: &[Answer]) -> (Vec<u64>, Vec<CallId>) {
    let word = |answer: &Answer| match answer {
        Answer::Begin(_, step) | Answer::Step(step) => Some(wire::pack_step(*step)),
        Answer::Flags(flags) | Answer::Retuned(Ok(flags)) => Some(u64::from(flags.wakes)),
        _ => None,
    };
    let id = |answer: &Answer| match answer {
        Answer::Begin(call, _) => Some(*call),
        _ => None,
    };
    (answers.iter().filter_map(word).collect(), answers.iter().filter_map(id).collect())
}

/// Are these all among those, in this order?
fn within(few: &[u64], all: &[u64]) -> bool {
    let mut all = all.iter();
    few.iter().all(|word| all.any(|other| other == word))
}

proptest! {
    #[test]
    fn a_journal_replays_to_the_same_steps_ids_and_records(
        ops in prop::collection::vec(op(), 1..150), seed: u64, to in prop::option::of((0..POLICIES.len(), 0..POLICIES.len())),
    ) {
        let mut world = World::with(journaled(), 1_000_000, seed);
        world.engine.subscribe(true);
        for op in &ops {
            world.run(op);
        }
        if let Some((policy, to)) = to.filter(|(policy, to)| policy != to) {
            world.retune(policy, to);
        }
        world.run(&Op::Pass(5));
        let (inputs, told) = (taken(&mut world.engine), records(&mut world.engine));
        let mut again = Engine::new(seed, journaled());
        again.subscribe(true);
        let answers = again.replay(written(&inputs));
        let (words, ids) = words(&answers);
        prop_assert!(within(&world.words, &words), "the world's steps");
        prop_assert_eq!(ids, world.calls.iter().map(|call| call.id).collect::<Vec<_>>());
        prop_assert_eq!(records(&mut again), told, "everything that was decided");
        prop_assert_eq!(again.snapshot(world.now()), world.engine.snapshot(world.now()));
        prop_assert_eq!(taken(&mut again), inputs, "a replay writes the journal that it read");
    }

    /// Whatever an input holds, its text gives it back.
    #[test]
    fn texts_give_inputs_back(
        word in 0u64..1 << 53, now: u64, key in ".*", flags in 0u64..1 << 24, remaining: Option<u64>, event in 0u8..6,
        attempt: u8, kind in 0u8..32, opinion in 0u8..3, asked: Option<u64>, on: bool, policy: u32,
    ) {
        let now = Time::from_micros(now);
        let span = tidegate::Duration::from_micros;
        let opinion = [Opinion::None, Opinion::Retry, Opinion::DoNot][usize::from(opinion)];
        let outcome = Outcome { kind: Kind::new(kind).unwrap(), opinion, retry_after: asked.map(span) };
        let (route, policy) = (RouteId::from_word(word), PolicyId::from_word(policy));
        let request = Request {
            remaining: remaining.map(span),
            parent: on.then_some(CallId::from_word(word)),
            path: PathId::from_word(word),
            ..wire::unpack_request(flags, 0, 0, 0).unwrap()
        };
        written(&[
            Input::Route { policy, key: key.as_str().into(), now },
            Input::Path { route, path: key.as_str().into(), now },
            Input::Begin { route, request, now },
            Input::On {
                call: CallId::from_word(word),
                event: match event {
                    0 => Event::Timer,
                    1 => Event::Poll,
                    2 => Event::Cancel,
                    3 => Event::Headers { attempt },
                    4 => Event::Progress { attempt, age: span(word) },
                    _ => Event::Finished { attempt, outcome },
                },
                now,
            },
            Input::Force { policy, route: on.then_some(route), on, now },
            Input::Release { policy, keep: on, now },
            Input::Fallback { route, ok: on, now },
            Input::Fork { seed: word, now },
            Input::Wakes,
            Input::Store { kind: StoreKind::ALL[usize::from(on)], namespace: key.as_str().into(), process: u64::from(on) << 40, now },
            Input::Reply {
                command: CommandId::from_word(word),
                reply: match event {
                    0 => KeptReply::Lost,
                    1 => KeptReply::Error(key.as_bytes().into()),
                    _ => KeptReply::Bytes([key.as_bytes(), &[attempt, kind, 0xff]].concat().into()),
                },
                now,
            },
            Input::Commands,
        ]);
    }

    /// No text makes the parser panic.
    #[test]
    fn any_text_is_read_or_refused(line in "(policy|pool|route|target|begin|on|retune|force|store|reply)?( |[0-9]|\\PC|\"|\\\\x?|=|-){0,40}") {
        if let Ok(input) = line.parse::<Input>() {
            prop_assert_eq!(written(std::slice::from_ref(&input)), [input]);
        }
    }
}

#[test]
fn keys_of_any_characters_stand_on_one_line() {
    let (policy, now) = (PolicyId::from_word(0), Time::from_micros(1));
    for (key, line) in [
        ("", r#"route 1 0 """#),
        ("a b", r#"route 1 0 "a b""#),
        ("q\"\\\n\u{0}\u{85}ß", r#"route 1 0 "q\"\\\x0a\x00\x85ß""#),
    ] {
        let input = Input::Route { policy, key: key.into(), now };
        assert_eq!(input.to_string(), line);
        assert_eq!(written(std::slice::from_ref(&input)), [input]);
    }
}

#[test]
fn what_is_wrong_is_named() {
    let most = u64::MAX;
    for (line, error) in [
        ("", "input = (nothing): must be one of policy, pool, route, target, begin, weights, settle, wall, left, on, retune, release, retune_pool, force, force_target, fallback, restore, fork, wakes, store, reply, commands, link, lift_budgets".to_owned()),
        ("wake", "input = wake: must be one of policy, pool, route, target, begin, weights, settle, wall, left, on, retune, release, retune_pool, force, force_target, fallback, restore, fork, wakes, store, reply, commands, link, lift_budgets".into()),
        ("wakes 1", "end = 1: must be the end of the line".into()),
        ("on", format!("now = (nothing): must be a whole number up to {most}")),
        ("on +5 1 poll", format!("now = +5: must be a whole number up to {most}")),
        ("on 5 9007199254740992 poll", "call = 9007199254740992: must be a whole number up to 9007199254740991".into()),
        ("on 5 1 pol", "event = pol: must be one of timer, poll, cancel, headers, finished, progress".into()),
        ("on 5 1 finished 256 0 0 -", "attempt = 256: must be a whole number up to 255".into()),
        ("on 5 1 finished 1 32 0 -", "kind = 32: must be a whole number up to 31".into()),
        ("on 5 1 finished 1 0 3 -", "opinion = 3: must be a whole number up to 2".into()),
        ("on 5 1 finished 1 0 0", format!("retry_after = (nothing): must be a whole number up to {most}, or - for none")),
        ("begin 0 1 33554432 - - 0", "flags = 33554432: must be a whole number up to 33554431".into()),
        ("store 0 sql \"x\"", "kind = sql: must be one of lua, plain".into()),
        ("reply 0 1 maybe", "reply = maybe: must be one of bytes, error, lost".into()),
        ("reply 0 1 bytes \"€\"", "bytes = \"€\": must be characters up to ÿ".into()),
        ("force 0 0 - 2", "on = 2: must be a whole number up to 1".into()),
        ("pool 0 pail \"db\"", "kind = pail: must be one of bulkhead, rate_limit, budget, targets".into()),
        ("policy \"p\" deadline=0", "deadline = 0s: must be a span from 1us to 365 days".into()),
        ("policy \"p\" deadline=soon", "deadline = soon: must be a number, or a text in quotes".into()),
        ("policy \"p\" deadline", "pair = deadline: must be key=number or key=\"text\"".into()),
    ] {
        assert_eq!(line.parse::<Input>().unwrap_err().to_string(), error, "{line}");
    }
    for line in
        ["route 0 0 key", "route 0 0 \"key", r#"route 0 0 "\n""#, r#"route 0 0 "\x0""#, r#"route 0 0 "a"b"#]
    {
        assert_eq!(line.parse::<Input>().unwrap_err().part, "key", "{line}");
    }
}

#[test]
fn only_an_engine_that_was_made_so_keeps_a_journal() {
    let mut engine = Engine::new(1, Options::default());
    let _ = engine.on(CallId::from_word(0), Event::Poll, Time::from_micros(0));
    assert_eq!(taken(&mut engine), []);
    let mut engine = Engine::new(1, journaled());
    let _ = engine.on(CallId::from_word(0), Event::Poll, Time::from_micros(0));
    assert_eq!(taken(&mut engine).len(), 1);
    assert_eq!(taken(&mut engine), [], "taken once");
    engine.take_wakes(&mut Vec::new());
    assert_eq!(taken(&mut engine), [], "a look at no wakes is no input");
}

#[test]
fn pools_clashes_and_forks_are_inputs_too() {
    let at = Time::from_micros;
    let mut engine = Engine::new(9, journaled());
    let pool = |limit| {
        Pool::from_pairs(
            "db",
            PoolKind::Bulkhead,
            &[("max_concurrency", Value::Number(limit)), ("max_queue", Value::Text("none"))],
        )
        .unwrap()
    };
    let policy = |deadline| {
        let pairs = [("deadline", Value::Number(deadline)), ("bulkhead.pool", Value::Text("db"))];
        Box::new(Policy::from_pairs("p", &pairs).unwrap())
    };
    let inputs = [
        Input::Policy { policy: policy(1e6) },
        Input::Pool { pool: Box::new(pool(1.0)), now: at(0) },
        Input::Policy { policy: policy(1e6) },
        Input::Policy { policy: policy(2e6) },
        Input::Route { policy: PolicyId::from_word(0), key: "r".into(), now: at(0) },
        Input::Begin { route: RouteId::from_word((1 << 20) + 1), request: Request::default(), now: at(0) },
        Input::Begin { route: RouteId::from_word((1 << 20) + 1), request: Request::default(), now: at(1) },
        Input::RetunePool { to: Box::new(pool(2.0)), now: at(2) },
        Input::Wakes,
        Input::Retune { policy: PolicyId::from_word(0), to: policy(3e6), now: at(3) },
        Input::Fork { seed: 5, now: at(4) },
    ];
    let answers = engine.replay(inputs.clone());
    assert!(matches!(answers[0], Answer::Policy(Err(_))), "the pool is not there yet: {:?}", answers[0]);
    assert!(matches!(answers[3], Answer::Policy(Err(_))), "{:?}", answers[3]);
    assert_eq!(answers[4], Answer::Route(RouteId::from_word((1 << 20) + 1)));
    let Answer::Begin(second, step) = answers[6] else { panic!() };
    assert!(matches!(step.action(), Action::Wait { .. }));
    assert_eq!(answers[8], Answer::Wakes(vec![second]));
    assert_eq!(taken(&mut engine), inputs);
    assert_eq!(Engine::new(9, journaled()).replay(written(&inputs)), answers);
    let stale = engine.on(second, Event::Poll, at(5));
    assert!(matches!(stale.action(), Action::Done { verdict: Verdict::Stale, .. }));
}

#[test]
fn what_was_restored_is_part_of_the_journal() {
    let at = Time::from_micros;
    let policy = || {
        let pairs =
            [("breaker.consecutive", Value::Number(1.0)), ("breaker.break_duration", Value::Number(5e6))];
        Policy::from_pairs("p", &pairs).unwrap()
    };
    let mut old = Engine::new(3, journaled());
    let id = old.policy(policy()).unwrap();
    let route = old.route(id, "r", at(0));
    let (call, _) = old.begin(route, &Request::default(), at(0));
    let _ = old.on(call, wire::unpack_event(4 | 1 << 3 | 1 << 11).unwrap(), at(5));
    let saved = old.save(at(10));

    let mut new = Engine::new(3, journaled());
    let id = new.policy(policy()).unwrap();
    new.restore(&saved, tidegate::Duration::from_secs(1), at(0)).unwrap();
    let route = new.route(id, "r", at(20));
    let (refused, step) = new.begin(route, &Request::default(), at(30));
    assert!(matches!(step.action(), Action::Done { verdict: Verdict::BreakerOpen, .. }));
    assert_eq!(new.explain_call(refused).unwrap().verdict, Some(Verdict::BreakerOpen));
    assert!(new.restore(&saved, tidegate::Duration::ZERO, at(31)).is_err());
    let inputs = taken(&mut new);
    let answers = Engine::new(3, journaled()).replay(written(&inputs));
    assert_eq!(answers[3], Answer::Begin(refused, step));
    assert!(matches!(answers[1], Answer::Restored(Ok(_))) && matches!(answers[4], Answer::Restored(Err(_))));
}

/// All vectors of the engine, run as `tests/README.md` says, then replayed from their journals. That the steps are the
/// vectors' own is what `vectors.rs` asserts.
#[test]
fn every_shared_vector_replays_from_its_journal() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/engine");
    let (mut replayed, mut steps) = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let file: Json =
            serde_json::from_str(&std::fs::read_to_string(entry.unwrap().path()).unwrap()).unwrap();
        for vector in file["vectors"].as_array().unwrap() {
            let (mut engine, answers) = played(vector);
            let inputs = taken(&mut engine);
            let begun = |answers: &[Answer]| {
                let kept = |answer: &&Answer| {
                    matches!(answer, Answer::Begin(..) | Answer::Step(_) | Answer::Wakes(_))
                };
                answers.iter().filter(kept).cloned().collect::<Vec<_>>()
            };
            let again = Engine::new(vector["seed"].as_u64().unwrap(), journaled()).replay(written(&inputs));
            assert_eq!(begun(&again), answers, "{}", vector["name"]);
            (replayed, steps) = (replayed + 1, steps + answers.len());
        }
    }
    assert!(replayed > 150 && steps > 1_000, "{replayed} vectors, {steps} answers");
}

fn pairs(json: &Json) -> Vec<(&str, Value<'_>)> {
    let pairs = json["pairs"].as_array().unwrap().iter();
    let value = |json: &'_ Json| json.as_f64().map(Value::Number);
    pairs
        .map(|pair| {
            let text = || Value::Text(pair[1].as_str().unwrap());
            (pair[0].as_str().unwrap(), value(&pair[1]).unwrap_or_else(text))
        })
        .collect()
}

fn played(vector: &Json) -> (Engine, Vec<Answer>) {
    let mut engine = Engine::new(vector["seed"].as_u64().unwrap(), journaled());
    for pool in vector["pools"].as_array().into_iter().flatten() {
        let kind = PoolKind::ALL.into_iter().find(|kind| pool["kind"] == kind.name()).unwrap();
        let table = if kind == PoolKind::Budget { "retry.budget" } else { kind.name() };
        let pairs: Vec<_> = pairs(pool)
            .into_iter()
            .map(|(key, value)| (key.trim_start_matches(table).trim_start_matches('.'), value))
            .collect();
        let pool = Pool::from_pairs(pool["name"].as_str().unwrap(), kind, &pairs).unwrap();
        engine.pool(pool, Time::from_micros(0)).unwrap();
    }
    let mut policies = BTreeMap::new();
    for policy in vector["policies"].as_array().unwrap() {
        let name = policy["name"].as_str().unwrap();
        policies.insert(name, engine.policy(Policy::from_pairs(name, &pairs(policy)).unwrap()).unwrap());
    }
    let (mut calls, mut answers) = (BTreeMap::<&str, CallId>::new(), Vec::new());
    for entry in vector["script"].as_array().unwrap() {
        let now = Time::from_micros(entry["at"].as_u64().unwrap());
        if entry["begin"].is_object() {
            let begin = &entry["begin"];
            let route = begin["route"].as_str().map_or(RouteId::from_word(0), |key| {
                engine.route(policies[begin["policy"].as_str().unwrap()], key, now)
            });
            let number = |n: usize| begin["request"][n].as_u64().unwrap_or(0);
            let parent = begin["request"][2].as_str().map_or(0, |name| calls[name].to_word());
            let request = wire::unpack_request(number(0), number(1), parent, number(3)).unwrap();
            let path = begin["path"].as_str().map_or(request.path, |path| engine.path_id(route, path, now));
            let (call, step) = engine.begin(route, &Request { path, ..request }, now);
            calls.insert(entry["call"].as_str().unwrap(), call);
            answers.push(Answer::Begin(call, step));
        } else if entry["force"].is_object() {
            let force = &entry["force"];
            let policy = policies[force["policy"].as_str().unwrap()];
            let route = force["route"].as_str().map(|key| engine.route(policy, key, now));
            let _ = engine.force_open(policy, route, force["on"].as_bool().unwrap(), now);
        } else if let Some(name) = entry["link"].as_str() {
            engine.set_link(Link::ALL.into_iter().find(|link| link.name() == name).unwrap(), now);
        } else {
            let event = wire::unpack_event(entry["event"].as_u64().unwrap()).unwrap();
            let step = engine.on(calls[entry["on"].as_str().unwrap()], event, now);
            answers.push(Answer::Step(step));
        }
        let mut wakes = Vec::new();
        engine.take_wakes(&mut wakes);
        if !wakes.is_empty() {
            answers.push(Answer::Wakes(wakes));
        }
    }
    (engine, answers)
}

#[test]
fn a_journal_that_nobody_takes_keeps_its_last_inputs_and_says_how_many_are_missing() {
    let mut engine = Engine::new(7, journaled().journal_limit(10));
    let now = Time::from_micros(0);
    let policy = engine
        .policy(Policy::from_pairs("p", &[("retry.max_attempts", Value::Number(2.0))]).unwrap())
        .unwrap();
    for n in 0..9 {
        engine.route(policy, &n.to_string(), now);
    }
    assert_eq!(engine.journal().count(), 10, "as many as it may keep");
    for n in 0..5 {
        engine.route(policy, &format!("more {n}"), now);
    }
    let lines: Vec<_> = engine.journal().map(ToString::to_string).collect();
    assert_eq!(lines.len(), 11);
    assert_eq!((lines[0].as_str(), lines[1].as_str()), ("dropped 5", "route 0 0 \"4\""));
    assert_eq!(lines[10], "route 0 0 \"more 4\"");
    let refused = lines[0].parse::<Input>().unwrap_err().to_string();
    assert!(refused.starts_with("dropped = 5: so many inputs before this line are missing"), "{refused}");
    assert_eq!(taken(&mut engine).len(), 11);
    assert_eq!(engine.journal().count(), 0);
    engine.route(policy, "after", now);
    assert_eq!(taken(&mut engine).len(), 1, "nothing is missing between what was taken and what follows");
}

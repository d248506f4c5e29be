//! The words of the numeric border for the npm package, computed by core's own packing, so that no bit is defined twice.

use std::fmt::Write;

use tidegate::answer::{HELD_AT_MOST, READ_AT_MOST, READ_FOR};
use tidegate::wire::{pack_event, pack_outcome, pack_request, pack_step};
use tidegate::{
    Action, AttemptSlot, Class, Criticality, Duration, Event, Flags, Kind, Opinion, Outcome, Request, Step,
    Verdict, Wait,
};

const WIDTH: usize = 110;

pub fn text() -> String {
    let mut text = String::from(
        "// Generated from core/src/wire.rs by `cargo xtask generate`; do not edit.\n\n/** The words of the numeric border, as `core/src/wire.rs` lays them out (pinned by `tests/vectors/wire`). */\n",
    );
    let sections =
        [("Steps.", steps()), ("Events.", events()), ("Requests.", requests()), ("Answers.", answers())];
    for (title, constants) in sections {
        let _ = write!(text, "\n// {title}\n");
        for (name, value, doc) in constants {
            if !doc.is_empty() {
                let _ = writeln!(text, "/** {doc} */");
            }
            let _ = writeln!(text, "export const {name} = {value};");
        }
    }
    let verdicts: Vec<_> = Verdict::ALL.iter().map(|verdict| verdict.name()).collect();
    let kinds: Vec<_> = Class::ALL.iter().map(|class| class.name()).collect();
    list(&mut text, "Why a call ended as it did.", "Verdict", "VERDICTS", &verdicts);
    list(&mut text, "The classes of an outcome.", "Class", "KINDS", &kinds);
    list(&mut text, "How much a call matters to a queue.", "Criticality", "CRITICALITIES", &criticalities());
    list(&mut text, "What is said about another attempt.", "Opinion", "OPINIONS", &opinions());
    text
}

type Constant = (&'static str, u64, &'static str);

fn steps() -> Vec<Constant> {
    let step = |action, next| pack_step(Step::new(action, next));
    let flags = |wakes, commands| {
        let action = Action::Wait { why: Wait::Running };
        pack_step(Step::new(action, None).with_flags(Flags { wakes, commands, target: false }))
    };
    let done = |result| step(Action::Done { verdict: Verdict::Ok, result, retry_in: None }, None);
    let wait = |why, next| step(Action::Wait { why }, next);
    let attempt = step(Action::Attempt { attempt: 0, hedge: false }, None);
    let waiting = wait(Wait::Running, None);
    let to_target = Flags { target: true, ..Flags::default() };
    let target =
        pack_step(Step::new(Action::Attempt { attempt: 0, hedge: false }, None).with_flags(to_target));
    vec![
        ("DONE", done(None), "What a step asks for: bits 0 and 1."),
        ("ATTEMPT", attempt, ""),
        ("WAIT", waiting, ""),
        ("WAKES", flags(true, false) - waiting, "Other calls can go on."),
        ("COMMANDS", flags(false, true) - waiting, "Commands for a store are waiting."),
        ("TARGET", target - attempt, "The attempt goes to a target: the engine says to which."),
        (
            "SPAN",
            wait(Wait::Running, Some(Duration::ZERO)) - waiting,
            "One of a step's span: 0 none, else 1 + d; microseconds, or milliseconds where the step is Done.",
        ),
        (
            "FIRST",
            step(Action::Attempt { attempt: 1, hedge: false }, None),
            "\"Start attempt 1\" with nothing beside it and no timer: the happy path's first answer.",
        ),
        (
            "OK_1",
            done(Some(AttemptSlot::of(1))),
            "Done, ok, with the answer of attempt 1: the happy path's last answer.",
        ),
        ("WAIT_BODY", wait(Wait::Body, None), "\"Wait until the body has been read\"."),
    ]
}

fn events() -> Vec<Constant> {
    let ok = Outcome { kind: Kind::from(Class::Ok), opinion: Opinion::None, retry_after: None };
    let headers = |attempt| pack_event(Event::Headers { attempt });
    let finished = |attempt| pack_event(Event::Finished { attempt, outcome: ok });
    let transient = Outcome { kind: Kind::from(Class::Transient), ..ok };
    let do_not = pack_outcome(Outcome { opinion: Opinion::DoNot, ..ok });
    let retry = pack_outcome(Outcome { opinion: Opinion::Retry, ..ok });
    let progress = |us| pack_event(Event::Progress { attempt: 0, age: Duration::from_micros(us) });
    let microsecond = progress(1) - progress(0);
    let at_once = pack_outcome(Outcome { retry_after: Some(Duration::ZERO), ..ok });
    vec![
        ("TIMER", pack_event(Event::Timer), ""),
        ("POLL", pack_event(Event::Poll), ""),
        ("CANCEL", pack_event(Event::Cancel), ""),
        ("HEADERS", headers(0), ""),
        ("FINISHED", finished(0), ""),
        ("FINISHED_1", finished(1), "Attempt 1 ended well."),
        ("PROGRESS", progress(0), "The last piece of an attempt's body came so long ago."),
        ("AGE_UNIT", microsecond, "One microsecond of that age."),
        (
            "LONGEST_AGE",
            (progress(u64::MAX) - progress(0)) / microsecond,
            "The largest age, in microseconds.",
        ),
        ("ATTEMPT_UNIT", headers(1) - headers(0), "One of an event's number of the attempt."),
        ("KIND_UNIT", pack_outcome(transient), "One of an outcome's kind."),
        ("OPINION_UNIT", retry, "One of an outcome's opinion."),
        ("DO_NOT", do_not, "Opinion \"do not\" at its place in an outcome."),
        ("OPINION_MASK", retry | do_not, ""),
        ("RETRY_AFTER_UNIT", at_once, "One of an outcome's `Retry-After`: 0 none, else 1 + milliseconds."),
    ]
}

fn requests() -> Vec<Constant> {
    let none = Request {
        criticality: Criticality::BestEffort,
        replayable: false,
        idempotent: false,
        abortable: false,
        may_park: false,
        slot_until_body: false,
        solo: false,
        cost: 0,
        ..Request::default()
    };
    let flags = |request: Request| pack_request(&request)[0];
    vec![
        ("REPLAYABLE", flags(Request { replayable: true, ..none }), ""),
        ("IDEMPOTENT", flags(Request { idempotent: true, ..none }), ""),
        ("ABORTABLE", flags(Request { abortable: true, ..none }), ""),
        ("MAY_PARK", flags(Request { may_park: true, ..none }), ""),
        ("SLOT_UNTIL_BODY", flags(Request { slot_until_body: true, ..none }), ""),
        ("COST_UNIT", flags(Request { cost: 1, ..none }), ""),
        ("SOLO", flags(Request { solo: true, ..none }), ""),
        ("STREAM", flags(Request { stream: true, ..none }), "The answer is a stream."),
        (
            "PLAIN",
            flags(Request { criticality: Criticality::Normal, cost: 1, ..none }),
            "Criticality normal, cost 1.",
        ),
    ]
}

fn answers() -> Vec<Constant> {
    vec![
        ("READ_AT_MOST", READ_AT_MOST as u64, "Most bytes of a failed answer's body that are judged."),
        ("READ_FOR", READ_FOR.as_micros(), "How long a host waits for them, in microseconds."),
        ("HELD_AT_MOST", HELD_AT_MOST as u64, "Most bytes that a host keeps until a stream is delivered."),
    ]
}

/// The names of the criticalities; the index is the number.
fn criticalities() -> [&'static str; 4] {
    let mut names = [""; 4];
    for (criticality, name) in [
        (Criticality::BestEffort, "best_effort"),
        (Criticality::Degraded, "degraded"),
        (Criticality::Normal, "normal"),
        (Criticality::Critical, "critical"),
    ] {
        names[criticality as usize] = name;
    }
    names
}

fn opinions() -> [&'static str; 3] {
    let mut names = [""; 3];
    for (opinion, name) in [(Opinion::None, "none"), (Opinion::Retry, "retry"), (Opinion::DoNot, "do_not")] {
        names[opinion as usize] = name;
    }
    names
}

fn list(text: &mut String, doc: &str, name: &str, all: &str, words: &[&str]) {
    let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
    let line = format!("export const {all} = [{}] as const;", words.join(", "));
    let _ = if line.len() <= WIDTH {
        write!(text, "\n{line}\n")
    } else {
        write!(text, "\nexport const {all} = [\n  {},\n] as const;\n", words.join(",\n  "))
    };
    let _ = write!(text, "\n/** {doc} */\nexport type {name} = (typeof {all})[number];\n");
}

//! Explanations and journals, as JSON. This file only converts.

use tidegate::{
    Answer, CallExplanation, CallId, Clash, Duration, Flags, Input, PolicyExplanation, PolicyId, Time, wire,
};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::host::with;
use crate::json::{Json, listed};
use crate::texts::texts;

fn millis(span: Duration) -> f64 {
    span.as_micros() as f64 / 1e3
}

fn moment(at: Time) -> f64 {
    at.as_micros() as f64 / 1e3
}

/// Writes the explanation of a policy to the output, as JSON.
#[wasm_bindgen]
pub fn explain(engine: u32, policy: u32) {
    let explanation = with(engine, |it| it.core.explain_policy(PolicyId::from_word(policy)));
    texts(|it| it.output = explanation.map_or_else(|| "null".to_owned(), |of| of_policy(&of)));
}

fn of_policy(of: &PolicyExplanation) -> String {
    let mut json = Json::default();
    json.object(|json| {
        json.key("text");
        json.string(&of.to_string());
        json.key("policy");
        json.string(&of.policy);
        json.key("components");
        json.list(|json| {
            for component in &of.components {
                json.object(|json| {
                    json.key("name");
                    json.string(component.name);
                    json.key("meaning");
                    json.string(component.meaning);
                    json.key("settings");
                    json.object(|json| {
                        for (key, value) in &component.settings {
                            json.key(key);
                            json.string(value);
                        }
                    });
                });
            }
        });
        json.count("maxAttempts", of.max_attempts);
        json.maybe("maxWait", of.max_wait.map(millis), Json::real);
        json.maybe("maxTime", of.max_time.map(millis), Json::real);
        json.key("load");
        json.object(|json| {
            json.maybe("perCall", Some(of.load.per_call), Json::real);
            json.maybe("perSecond", Some(of.load.per_second), Json::real);
            json.maybe("burst", Some(of.load.burst), Json::real);
        });
        json.count("memoryPerRoute", of.memory_per_route as u64);
        json.key("warnings");
        json.list(|json| of.warnings.iter().for_each(|warning| json.string(warning)));
    });
    json.text
}

/// Writes the explanation of a call to the output, as JSON; `null` if the engine does not know the call.
#[wasm_bindgen]
pub fn explain_call(engine: u32, call: f64) {
    let explanation = with(engine, |it| it.core.explain_call(CallId::from_word(call as u64)));
    texts(|it| it.output = explanation.map_or_else(|| "null".to_owned(), |of| of_call(&of)));
}

fn of_call(of: &CallExplanation) -> String {
    let mut json = Json::default();
    json.object(|json| {
        json.key("text");
        json.string(&of.to_string());
        json.count("call", of.call.to_word());
        json.key("policy");
        json.string(&of.policy);
        json.key("route");
        json.string(&of.route);
        json.key("began");
        json.real(moment(of.began));
        json.key("at");
        json.real(moment(of.at));
        json.count("attempts", of.attempts);
        json.key("standing");
        json.string(&of.standing);
        json.maybe("why", of.why, |json, why| json.string(why.name()));
        json.maybe("until", of.until.map(moment), Json::real);
        json.maybe("deadline", of.deadline.map(moment), Json::real);
        json.maybe("reason", of.verdict, |json, verdict| json.string(verdict.name()));
        json.key("numbers");
        json.list(|json| of.numbers.iter().for_each(|number| json.string(number)));
        json.key("story");
        json.literal(&listed(of.story.iter().map(ToString::to_string)));
    });
    json.text
}

/// Writes the lines of the journal since they were last taken to the output; if `take` is not 0, they are taken.
#[wasm_bindgen]
pub fn journal(engine: u32, take: u32) {
    let text = with(engine, |it| {
        let mut taken = Vec::new();
        if take != 0 {
            it.core.take_journal(&mut taken);
        }
        let lines: Vec<_> = taken.iter().chain(it.core.journal()).map(ToString::to_string).collect();
        lines.join("\n")
    });
    texts(|it| it.output = text);
}

/// Replays the lines in the input. Returns the engine's clock at the end, with the engine's answer to each line as a JSON list in
/// the output. If a line is not a journal line, returns its negative number, with the reason in the output.
#[wasm_bindgen]
pub fn replay(engine: u32) -> f64 {
    let text = texts(|it| it.text(0, usize::MAX));
    let mut inputs = Vec::new();
    for (number, line) in text.lines().enumerate() {
        match line.parse::<Input>() {
            Ok(input) => inputs.push(input),
            Err(error) => {
                texts(|it| it.output = error.to_string());
                return -1.0 - number as f64;
            }
        }
    }
    with(engine, |it| {
        let mut json = Json::default();
        json.list(|json| {
            for answer in it.core.replay(inputs) {
                json.string(&said(&answer));
            }
        });
        texts(|it| it.output = json.text);
        it.core.now().as_micros() as f64
    })
}

/// The engine's answer to an input, in words and numbers. It avoids `Debug`, because this module is built without its texts.
fn said(answer: &Answer) -> String {
    let clash = |Clash { name, rule }: &Clash| format!("clash {name}: {rule}");
    let flags = |flags: &Flags| format!("flags {} {}", u8::from(flags.wakes), u8::from(flags.commands));
    match answer {
        Answer::Policy(taken) => {
            taken.as_ref().map_or_else(clash, |policy| format!("policy {}", policy.to_word()))
        }
        Answer::Pool(taken) => taken.as_ref().map_or_else(clash, |()| "pool".to_owned()),
        Answer::Route(route) => format!("route {}", route.to_word()),
        Answer::Path(path) => format!("target {}", path.to_word()),
        Answer::Begin(call, step) => format!("begin {} {}", call.to_word(), wire::pack_step(*step)),
        Answer::Step(step) => format!("step {}", wire::pack_step(*step)),
        Answer::Retuned(retuned) => retuned.as_ref().map_or_else(clash, flags),
        Answer::Flags(of) => flags(of),
        Answer::Noted => "noted".to_owned(),
        Answer::Settled(accepted) => format!("settled {}", u8::from(*accepted)),
        Answer::Restored(Ok(restored)) => format!("restored {}", restored.routes),
        Answer::Restored(Err(error)) => format!("not restored: {error}"),
        Answer::Wakes(calls) => {
            let calls: Vec<_> = calls.iter().map(|call| call.to_word().to_string()).collect();
            format!("wakes {}", calls.join(" "))
        }
        Answer::Commands(commands) => {
            let ids: Vec<_> = commands.iter().map(|it| it.id.to_word().to_string()).collect();
            format!("commands {}", ids.join(" "))
        }
    }
}

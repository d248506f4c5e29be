//! The fleet's store: commands out, replies in. This file only converts; the small module goes without it.

use tidegate::Time;
use tidegate::fleet::{CommandId, Reply, StoreKind};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::host::with;
use crate::json::Json;
use crate::texts::texts;

/// The kinds of replies: an answer or an error, whose bytes are in the input, or no reply.
const ANSWER: u32 = 0;
const ERROR: u32 = 1;

/// Attaches a store of this kind (its index among all kinds) to an engine; the input is the namespace of its keys. `high` and `low`
/// are random bits that identify this process.
#[wasm_bindgen]
pub fn attach_store(engine: u32, kind: u32, high: u32, low: u32, now: f64) {
    let namespace = texts(|it| it.text(0, usize::MAX));
    let kind = StoreKind::ALL.get(kind as usize).copied().unwrap_or(StoreKind::Lua);
    let process = u64::from(high) << 32 | u64::from(low);
    with(engine, |it| it.core.attach_store(kind, &namespace, process, Time::from_micros(now as u64)));
}

/// Takes the commands for the store, oldest first, as JSON in the output: id, milliseconds to wait for a reply, index of the word
/// that routes the command, and the words. All words are UTF-8: names, numbers, and the text of scripts.
#[wasm_bindgen]
pub fn commands(engine: u32) {
    let mut commands = Vec::new();
    with(engine, |it| it.core.take_commands(&mut commands));
    let mut json = Json::default();
    json.list(|json| {
        for command in &commands {
            json.list(|json| {
                json.whole(command.id.to_word());
                json.whole(command.within.as_micros().div_ceil(1_000));
                json.whole(u64::from(command.key));
                json.list(|json| {
                    command.words.iter().for_each(|word| json.string(&String::from_utf8_lossy(word)));
                });
            });
        }
    });
    texts(|it| it.output = json.text);
}

/// Takes the result of a command: 0, the answer in the input; 1, the error whose text is in the input; any other number, no reply.
/// Returns flags as in a step.
#[wasm_bindgen]
pub fn reply(engine: u32, command: f64, what: u32, now: f64) -> u32 {
    let bytes = texts(|it| std::mem::take(&mut it.input));
    let reply = match what {
        ANSWER => Reply::Bytes(&bytes),
        ERROR => Reply::Error(&bytes),
        _ => Reply::Lost,
    };
    let (command, now) = (CommandId::from_word(command as u64), Time::from_micros(now as u64));
    let flags = with(engine, |it| it.core.on_reply(command, reply, now));
    u32::from(flags.wakes) << 2 | u32::from(flags.commands) << 3
}

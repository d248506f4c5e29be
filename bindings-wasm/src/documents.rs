//! Policy documents: texts in, numbered policies out. Core reads and checks them; this file only converts.

use tidegate::{Document, PolicyError, Value};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::host::{host, with};
use crate::json::Json;
use crate::texts::{answer, mistakes, texts};
use crate::{clashed, time};

/// Reads the JSON document in the input and returns its number, or −1 with the mistakes in the output. A TOML reader would be a
/// quarter of the module's size, so there is none.
#[wasm_bindgen]
pub fn document() -> f64 {
    let text = texts(|it| it.text(0, usize::MAX));
    answer(
        Document::from_json(&text)
            .map(|document| host(|host| f64::from(host.documents.add(document))))
            .map_err(|errors| lined(&errors)),
    )
}

/// Forgets a document.
#[wasm_bindgen]
pub fn forget_document(document: u32) {
    host(|host| host.documents.remove(document));
}

/// Takes the pools and policies of a document into an engine. Returns 0, with JSON in the output: the document's digest, its pools
/// (name, kind, pairs; a group of targets is one too) and its policies (name, number, pairs). Or returns −1, with the mistakes in the output.
#[wasm_bindgen]
pub fn take_document(engine: u32, document: u32, now: f64) -> f64 {
    let Some(document) = document_of(document) else { return -1.0 };
    answer(taken(engine, &document, now).map(|text| {
        texts(|it| it.output = text);
        0.0
    }))
}

/// Changes an engine from one document to another, as a whole or not at all. Returns 0, and `wakes` lists the calls that can
/// continue. Or returns −1, with the reason in the output.
#[wasm_bindgen]
pub fn reload(engine: u32, from: u32, to: u32, now: f64) -> f64 {
    let (Some(from), Some(to)) = (document_of(from), document_of(to)) else { return -1.0 };
    let reloaded = with(engine, |it| it.core.reload(&from, &to, time(now)));
    answer(reloaded.map(|_| 0.0).map_err(|errors| lined(&errors)))
}

fn document_of(document: u32) -> Option<Document> {
    host(|host| host.documents.get(document).cloned())
}

fn taken(engine: u32, document: &Document, now: f64) -> Result<String, String> {
    let mut json = Json::default();
    let mut failed = None;
    with(engine, |it| {
        json.list(|json| {
            json.string(&format!("{:016x}", document.digest()));
            json.list(|json| {
                for pool in document.pools() {
                    if let Err(clash) = it.core.pool(pool.clone(), time(now)) {
                        failed.get_or_insert_with(|| clashed("pool", &clash));
                    }
                    json.list(|json| {
                        json.string(pool.name());
                        json.string(pool.kind().name());
                        listed(json, &pool.to_pairs());
                    });
                }
            });
            json.list(|json| {
                for policy in document.policies() {
                    match it.core.policy(policy.clone()) {
                        Ok(id) => json.list(|json| {
                            json.string(policy.name());
                            json.whole(u64::from(id.to_word()));
                            listed(json, &policy.to_pairs());
                        }),
                        Err(clash) => {
                            failed.get_or_insert_with(|| clashed("policy", &clash));
                        }
                    }
                }
            });
        });
    });
    failed.map_or(Ok(json.text), Err)
}

fn listed(json: &mut Json, pairs: &[(&str, Value<'_>)]) {
    json.list(|json| {
        for (key, value) in pairs {
            json.list(|json| {
                json.string(key);
                match value {
                    Value::Number(number) => json.real(*number),
                    Value::Text(text) => json.string(text),
                }
            });
        }
    });
}

/// Mistakes with their lines in the document.
fn lined(errors: &[PolicyError]) -> String {
    let lined: Vec<_> = errors
        .iter()
        .map(|error| PolicyError {
            rule: match error.line {
                Some(line) => format!("{} (line {line})", error.rule),
                None => error.rule.clone(),
            },
            ..error.clone()
        })
        .collect();
    mistakes(&lined)
}

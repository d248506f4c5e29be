//! Runs the examples as users do, except for their `main`.

#[path = "../examples/hyper.rs"]
#[allow(dead_code, clippy::disallowed_methods, reason = "a program is included, and its main is not run")]
mod hyper;
#[path = "../examples/reqwest.rs"]
#[allow(dead_code, clippy::disallowed_methods, reason = "a program is included, and its main is not run")]
mod reqwest;

use crate::support::counted;
use tidegate_origin::{Options, Origin, Script};

fn flaky() -> Origin {
    let origin = Origin::start(Options::default()).unwrap();
    let script =
        serde_json::json!({"sequences": {"/x": [{"status": 503}, {"fault": "reset"}, {"body": "an order"}]}});
    origin.play(Script::from_value(&script).unwrap()).unwrap();
    origin
}

#[tokio::test]
async fn hyper_under_the_layer() {
    counted(hyper_gets_an_order()).await;
}

async fn hyper_gets_an_order() {
    let origin = flaky();
    let answer = hyper::get(&format!("{}/x", origin.url())).await.unwrap();
    assert_eq!(answer, (200, "an order".into()));
    assert_eq!(origin.log().len(), 3);
}

#[tokio::test]
async fn reqwest_under_a_guard() {
    counted(reqwest_gets_an_order()).await;
}

async fn reqwest_gets_an_order() {
    let origin = flaky();
    let answer = reqwest::get(&format!("{}/x", origin.url())).await.unwrap();
    assert_eq!(answer, (200, "an order".into(), 3));
    assert_eq!(origin.log().len(), 3);
}

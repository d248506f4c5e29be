//! Slots whose holders are gone, taken back on request (semantics 10.1).

use tidegate::fleet::{MemoryStore, StoreKind};
use tidegate::{Engine, Options, Pool, PoolKind, Time, Value};

#[test]
fn the_command_takes_back_what_is_over_and_is_of_one_slot() {
    let mut engine = Engine::new(1, Options::default());
    let _ = engine.attach_store(StoreKind::Lua, "a{b", 1, Time::from_micros(0));
    for (name, store) in [("stripe}|", "fleet"), ("local", "local")] {
        let limit = ("max_concurrency", Value::Number(2.0));
        let pool = Pool::from_pairs(name, PoolKind::Bulkhead, &[limit, ("store", Value::Text(store))]);
        engine.pool(pool.unwrap(), Time::from_micros(0)).unwrap();
    }
    assert_eq!(engine.reap_command("nobody"), None);
    assert_eq!(engine.reap_command("local"), None);

    let words = engine.reap_command("stripe}|").unwrap();
    let text: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    assert_eq!(text[3], "a%7bb:{p|stripe%7d%7c}:bh");
    assert_eq!(text[4], "a%7bb:{p|stripe%7d%7c}:bh:f");
    assert_eq!(text[5], "a%7bb:{p|stripe%7d%7c}:bh:w");

    let mut store = MemoryStore::new();
    assert_eq!(store.execute(&words, 0).unwrap(), b"0 0");
    let mut acquire = words.clone();
    for (at, word) in [(6, "0"), (7, "00000000000000aa"), (8, "2"), (10, "2")] {
        acquire[at] = word.into();
    }
    assert!(store.execute(&acquire, 0).unwrap().starts_with(b"2 "), "two slots, for 30 s");
    assert_eq!(store.execute(&words, 29_999_999).unwrap(), b"0 2");
    assert_eq!(store.execute(&words, 30_000_001).unwrap(), b"2 0");
}

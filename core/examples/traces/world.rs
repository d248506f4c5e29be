//! An engine that carries out the entries of a script.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use tidegate::answer::Quotas;
use tidegate::{
    CallId, Engine, Link, Options, PathId, Policy, PolicyId, Pool, PoolKind, Time, Value, WallTime, wire,
};

/// An engine, and the names that a vector has for its calls and routes.
pub struct World {
    pub engine: Engine,
    policies: BTreeMap<String, PolicyId>,
    calls: BTreeMap<String, CallId>,
}

impl World {
    pub fn new(seed: u64, max_routes: u32, pools: &[Json], policies: &[Json]) -> Option<Self> {
        let mut engine = Engine::new(
            seed,
            Options::default()
                .max_routes(max_routes)
                .journal(true)
                .weights(true)
                .quotas(true)
                .wall_clock(true),
        );
        let mut known = BTreeMap::new();
        for pool in pools {
            let kind = PoolKind::of_name(pool["kind"].as_str()?)?;
            let built = Pool::from_pairs(pool["name"].as_str()?, kind, &pairs(pool)).ok()?;
            engine.pool(built, Time::from_micros(0)).ok()?;
        }
        for policy in policies {
            let name = policy["name"].as_str()?.to_owned();
            let built = Policy::from_pairs(&name, &pairs(policy)).ok()?;
            known.insert(name, engine.policy(built).ok()?);
        }
        Some(Self { engine, policies: known, calls: BTreeMap::new() })
    }

    /// Carries out one entry of a script and writes its step and its wakes into it.
    pub fn act(&mut self, entry: &mut Json) -> u64 {
        let now = Time::from_micros(entry["at"].as_u64().expect("a moment"));
        let word = if let Json::Object(begin) = &entry["begin"] {
            let words = begin["request"].as_array().expect("a request");
            let parent = words[2].as_str().and_then(|name| self.calls.get(name)).map_or(0, |id| id.to_word());
            let word = |place: usize| words[place].as_u64().expect("a number");
            let request = wire::unpack_request(word(0), word(1), parent, word(3)).expect("a request");
            let policy = self.policies[&text(&begin["policy"])];
            let route = self.engine.route(policy, &text(&begin["route"]), now);
            let path = begin.get("path").and_then(Json::as_str);
            let path = path.map_or(PathId::NONE, |path| self.engine.path_id(route, path, now));
            let request = tidegate::Request { path, ..request };
            // What a host would refuse with an error begins without weights.
            let weights = begin.get("weights").and_then(Json::as_object).map(|named| {
                let amount = |json: &Json| json.as_u64().expect("an amount");
                named.iter().map(|(name, json)| (name.as_str(), amount(json))).collect::<Vec<_>>()
            });
            let weights = weights.and_then(|named| self.engine.weights(route, named).ok());
            let (call, step) = match weights {
                Some(weights) => self.engine.begin_weighted(route, &request, weights, now),
                None => self.engine.begin(route, &request, now),
            };
            self.calls.insert(text(&entry["call"]), call);
            wire::pack_step(step)
        } else if let Json::Object(force) = &entry["force"] {
            let policy = self.policies[&text(&force["policy"])];
            let route = force["route"].as_str().map(|key| self.engine.route(policy, key, now));
            let on = force["on"].as_bool().expect("a flag");
            let _ = self.engine.force_open(policy, route, on, now);
            2 // it is nobody's end
        } else if let Json::Array(settle) = &entry["settle"] {
            let (attempt, total) =
                (settle[0].as_u64().expect("a number"), settle[2].as_u64().expect("a total"));
            let call = self.calls[entry["on"].as_str().expect("a name")];
            u64::from(self.engine.settle_weight(call, attempt as u8, &text(&settle[1]), total, now))
        } else if let Json::Array(head) = &entry["head"] {
            let headers: Vec<_> = head.iter().map(|it| (text(&it[0]), text(&it[1]))).collect();
            let headers: Vec<_> = headers.iter().map(|it| (it.0.as_bytes(), it.1.as_bytes())).collect();
            let left = Quotas::read(&headers, WallTime::from_unix_micros(0)).left();
            self.engine.note_quotas(self.calls[entry["on"].as_str().expect("a name")], left, now);
            2
        } else if let Some(wall) = entry["wall"].as_u64() {
            self.engine.note_wall(WallTime::from_unix_micros(wall), now);
            2
        } else if let Some(link) = entry["link"].as_str() {
            let link = Link::ALL.into_iter().find(|it| it.name() == link).expect("a state of the link");
            self.engine.set_link(link, now);
            2
        } else if let Json::Object(release) = &entry["release"] {
            let name = text(&release["policy"]);
            let id = self.policies[&name];
            let policy = self.engine.policy_of(id).expect("a policy").clone();
            self.engine.release_policy(id, release["keep"].as_bool().expect("a flag"), now);
            self.policies.insert(name, self.engine.policy(policy).expect("its name is free, or its own"));
            2
        } else {
            let event = wire::unpack_event(entry["event"].as_u64().expect("a word")).expect("an event");
            let call = self.calls.get(entry["on"].as_str().expect("a name"));
            wire::pack_step(self.engine.on(call.copied().unwrap_or(CallId::from_word(0)), event, now))
        };
        if let Json::Object(entry) = &mut *entry {
            entry.remove("target"); // of an earlier run
        }
        if word & 3 == 1 && word >> 21 & 1 == 1 {
            let name = entry["call"].as_str().or(entry["on"].as_str()).expect("a name");
            entry["target"] = json!(self.engine.target_of(self.calls[name], None));
        }
        let mut woken = Vec::new();
        self.engine.take_wakes(&mut woken);
        let name = |id: &CallId| self.calls.iter().rev().find(|call| call.1 == id).map(|call| call.0.clone());
        if ["force", "release", "link", "head", "wall"].iter().all(|key| entry[*key].is_null()) {
            entry["step"] = json!(word);
        }
        entry["wakes"] = json!(woken.iter().map(name).collect::<Vec<_>>());
        word
    }
}

fn text(json: &Json) -> String {
    json.as_str().expect("a text").to_owned()
}

fn pairs(policy: &Json) -> Vec<(&str, Value<'_>)> {
    let pairs = policy["pairs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let value = |json: &'_ Json| json.as_f64().map(Value::Number);
    pairs
        .iter()
        .map(|pair| {
            let word = pair[1].as_str().map(Value::Text);
            (pair[0].as_str().expect("a key"), word.or(value(&pair[1])).expect("a value"))
        })
        .collect()
}

/// Runs the script of a vector, and writes its steps and wakes into it.
pub fn replay(vector: &Json) -> Json {
    let mut vector = vector.clone();
    let policies = vector["policies"].as_array().cloned().unwrap_or_default();
    let pools = vector["pools"].as_array().cloned().unwrap_or_default();
    let seed = vector["seed"].as_u64().unwrap_or(0);
    let max_routes = vector["max_routes"].as_u64().unwrap_or(10_000) as u32;
    let mut world = World::new(seed, max_routes, &pools, &policies).expect("valid policies");
    for entry in vector["script"].as_array_mut().expect("a script") {
        world.act(entry);
    }
    vector
}

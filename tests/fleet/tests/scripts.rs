//! The Lua scripts on a real server: the vectors, and a random comparison with the in-memory store.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value as Json;
use tidegate::fleet::{MemoryStore, PROLOGUE, SCRIPTS, Script, reason};
use tidegate_fleet_tests::{Connection, Draw, Server, Word};

/// Replaces the line that reads the server's clock: `now` is the last argument.
const CLOCK: &str = "local now = tonumber(table.remove(ARGV))\n";

/// Dumps all keys as `MemoryStore::describe` writes them. Then makes them persistent: the test's clock is an argument,
/// so the server's clock must not expire them earlier.
const DUMP: &str = "
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind, held, names, values = redis.call('TYPE', key).ok, {}, {}, {}
  local all = kind == 'hash' and redis.call('HGETALL', key)
    or kind == 'zset' and redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') or {}
  for at = 1, #all, 2 do
    names[#names + 1] = all[at]
    values[all[at]] = kind == 'zset' and string.format('%.0f', all[at + 1]) or all[at + 1]
  end
  table.sort(names)
  for _, name in ipairs(names) do held[#held + 1] = name .. '=' .. values[name] end
  if kind == 'string' then held = { redis.call('GET', key) } end
  found[#found + 1] = key .. ' ' .. redis.call('PTTL', key) .. ' ' .. kind .. ' ' .. table.concat(held, ' ')
  redis.call('PERSIST', key)
end
table.sort(found)
return found";

/// A server whose clock is an argument.
struct Timed {
    connection: Connection,
    /// The last millisecond of each key's life.
    until: BTreeMap<String, i64>,
}

impl Timed {
    fn new(server: &Server) -> Self {
        let mut connection = server.connect();
        connection.ok("FLUSHALL");
        Self { connection, until: BTreeMap::new() }
    }

    /// Runs a command at a moment and checks the stored data. `expected` lists the times to live: just below the value
    /// if a command has set one, and none otherwise.
    fn run(&mut self, words: &[Vec<u8>], now: u64, expected: &[String]) -> Result<Vec<u8>, String> {
        let now_ms = i64::try_from(now / 1_000).unwrap();
        let over: Vec<String> =
            self.until.iter().filter(|(_, until)| **until < now_ms).map(|(key, _)| key.clone()).collect();
        let mut commands: Vec<Vec<Vec<u8>>> = vec![];
        for key in &over {
            self.until.remove(key);
            commands.push(vec![b"DEL".to_vec(), key.clone().into_bytes()]);
        }
        commands.push(words.to_vec());
        commands.push([b"EVAL", DUMP.as_bytes(), b"0"].map(<[u8]>::to_vec).to_vec());
        let mut answers = self.connection.pipeline(&commands).unwrap();
        let Some(Word::List(dump)) = answers.pop() else { panic!("no dump: {:?}", answers.last()) };
        let found: Vec<String> = dump.iter().map(Word::text).collect();
        self.compare(&found, expected, now_ms);
        answers.pop().unwrap().into_reply()
    }

    fn compare(&mut self, found: &[String], expected: &[String], now_ms: i64) {
        let parts = |line: &str| {
            let mut parts = line.splitn(3, ' ').map(str::to_string);
            (parts.next().unwrap(), parts.next().unwrap().parse::<i64>().unwrap(), parts.next().unwrap())
        };
        let mut before = std::mem::take(&mut self.until);
        assert_eq!(found.len(), expected.len(), "{found:#?} instead of {expected:#?}");
        for (found, expected) in found.iter().zip(expected) {
            let ((key, ttl, held), (name, wanted, contents)) = (parts(found), parts(expected));
            assert_eq!((&key, &held), (&name, &contents), "{found:#?} instead of {expected:#?}");
            let until = (wanted >= 0).then_some(now_ms + wanted);
            let old = before.remove(&key);
            let unchanged = until.is_some() && until == old && ttl == -1;
            // The server's clock advances between the two commands, by more on a busy machine.
            let fits = if wanted == -1 { ttl == -1 } else { (wanted - 2_000..=wanted).contains(&ttl) };
            assert!(unchanged || fits, "{found} lives {ttl} ms, not {wanted} ms");
            if let Some(until) = until {
                self.until.insert(key, until);
            }
        }
    }
}

/// The command for a script whose clock is an argument, with that argument.
fn timed(script: Script, keys: &[Vec<u8>], args: &[Vec<u8>], now: u64) -> Vec<Vec<u8>> {
    let source = script.source.replacen(PROLOGUE, CLOCK, 1);
    assert_ne!(source, script.source, "the prologue is where it was");
    let mut words = vec![b"EVAL".to_vec(), source.into_bytes(), keys.len().to_string().into_bytes()];
    words.extend_from_slice(keys);
    words.extend_from_slice(args);
    words.push(now.to_string().into_bytes());
    words
}

fn texts(json: &Json) -> Vec<String> {
    json.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_string()).collect()
}

fn bytes(json: &Json) -> Vec<Vec<u8>> {
    texts(json).into_iter().map(String::into_bytes).collect()
}

#[test]
fn the_scripts_do_what_the_model_says() {
    let server = Server::start(&[]);
    for script in SCRIPTS {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let path = path.join(format!("../vectors/fleet/{}.json", script.name));
        let file: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let mut steps = 0;
        for case in file["cases"].as_array().unwrap() {
            let mut store = Timed::new(&server);
            for (place, step) in case["steps"].as_array().unwrap().iter().enumerate() {
                let here = format!("{}: {}, step {place}: {step}", script.name, case["name"]);
                println!("{here}");
                let (now, state) = (step["at"].as_u64().unwrap(), texts(&step["state"]));
                if step.get("do").is_some() {
                    store.run(&bytes(&step["do"]), now, &state).unwrap();
                } else {
                    let words = timed(script, &bytes(&case["keys"]), &bytes(&step["args"]), now);
                    match store.run(&words, now, &state) {
                        Ok(reply) => {
                            assert_eq!(step["reply"].as_str(), str::from_utf8(&reply).ok(), "{here}");
                        }
                        Err(error) => {
                            assert_eq!(
                                step["error"].as_str(),
                                Some(reason(error.as_bytes())),
                                "{here}: {error}"
                            );
                        }
                    }
                }
                steps += 1;
            }
        }
        assert!(steps > 100, "{} has {steps}", script.name);
    }
}

/// The SHA-1 names under which the scripts are sent are those that the server computes.
#[test]
fn the_server_names_the_scripts_as_we_do() {
    let server = Server::start(&[]);
    let mut connection = server.connect();
    for script in SCRIPTS {
        let load = [b"SCRIPT".to_vec(), b"LOAD".to_vec(), script.source.as_bytes().to_vec()];
        assert_eq!(connection.run(&load).unwrap().text(), script.sha, "{}", script.name);
    }
}

/// Runs thirty thousand commands (`cargo xtask deep`: a million) in sequence on the Lua scripts and on the in-memory
/// twin. The clock runs backwards, data is lost, keys have other types and contents, arguments are invalid.
#[test]
fn the_twin_in_memory_answers_and_keeps_what_the_scripts_do() {
    let number = |name: &str, default: u64| {
        std::env::var(name)
            .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: a number")))
    };
    let (seed, count) = (number("TIDEGATE_FLEET_SEED", 20_261_121), number("TIDEGATE_FLEET_RUNS", 30_000));
    println!("replay with TIDEGATE_FLEET_SEED={seed} TIDEGATE_FLEET_RUNS={count}");
    let server = Server::start(&[]);
    let (mut lua, mut twin, mut draw) = (Timed::new(&server), MemoryStore::new(), Draw(seed));
    let mut now = 1_800_000_000_000_000_u64;
    let (mut answers, mut errors, mut epoch, mut fences) = (0_u64, 0_u64, 0_u64, vec![0_u64]);
    for place in 0..count {
        now = match draw.below(40) {
            0 => now - draw.below(2_000_000),
            1 => now - draw.below(4_000_000_000),
            2 => now + draw.below(4_000_000_000),
            3 => now,
            _ => now + draw.below(30_000),
        };
        let script = draw.one(&SCRIPTS);
        let keys: Vec<Vec<u8>> =
            script.keys.iter().map(|end| format!("t:{{{}}}{end}", draw.below(1)).into_bytes()).collect();
        let (real, ours) = if draw.below(50) == 0 {
            let command = mischief(&mut draw, &keys);
            (command.clone(), command)
        } else {
            let args = arguments(script, &mut draw, epoch, &fences);
            let count = keys.len().to_string().into_bytes();
            let mut ours = vec![b"EVAL".to_vec(), script.source.into(), count];
            ours.extend(keys.iter().chain(&args).cloned());
            (timed(script, &keys, &args, now), ours)
        };
        let expected = twin.execute(&ours, now);
        let found = lua.run(&real, now, &twin.describe(now));
        let shown =
            ours.iter().skip(2).map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ");
        let here = format!("seed {seed}, command {place}: {} {shown} at {now}", script.name);
        match (&found, &expected) {
            (Ok(found), Ok(expected)) => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                assert_eq!(text(found), text(expected), "{here}");
                answers += 1;
                let numbers: Vec<u64> = text(found).split(' ').filter_map(|it| it.parse().ok()).collect();
                match (script.name, numbers.as_slice()) {
                    ("breaker", [_, _, current, _]) => epoch = *current,
                    ("slots", [granted, first, _, _, _]) => fences.extend(*first..first + granted),
                    _ => {}
                }
                let old = fences.len().saturating_sub(12);
                fences.drain(..old);
            }
            (Err(found), Err(expected)) => {
                let word = |error: &str| reason(error.as_bytes());
                assert_eq!(word(found), word(expected), "{here}: {found}, {expected}");
                errors += 1;
            }
            _ => panic!("{here}: {found:?} from Lua, {expected:?} from the twin"),
        }
    }
    assert!(answers > count / 2 && errors > count / 500, "{answers} answers, {errors} errors");
}

/// Words that are not numbers, or numbers at a limit.
const NO_NUMBERS: [&str; 7] = ["", "x", "-1", "4503599627370496", "4503599627370497", "1.5", "0"];

/// Arguments as core would send them; occasionally arbitrary ones.
fn arguments(script: Script, draw: &mut Draw, epoch: u64, fences: &[u64]) -> Vec<Vec<u8>> {
    let mut args: Vec<String> = vec![];
    let pid = draw.one(&["a", "b", "c", "d"]).to_string();
    match script.name {
        "rate" => {
            let (permits, per, burst) = if draw.below(20) == 0 {
                draw.one(&[
                    (1_u64, 1_u64 << 52, 1_u64),
                    (4_294_967_295, 1 << 20, 4_294_967_295),
                    (7, 1_000_003, 3),
                ])
            } else {
                (100, 1_000_000, 20)
            };
            let want = draw.below(2 * burst.min(30));
            let (need, back, seen) =
                (draw.below(want.min(burst) + 1), draw.below(12) / 10, draw.below(4) / 3);
            let mut numbers = [permits, per, burst, want, need, back].map(|it| it.to_string());
            if draw.below(100) == 0 {
                let at = draw.below(6) as usize;
                numbers[at] = draw.one(&NO_NUMBERS).to_string();
            }
            args.push(numbers.join(" "));
            args.extend((seen > 0).then_some(pid));
        }
        "breaker" => {
            let epoch = epoch - (draw.below(4) / 3).min(epoch);
            let numbers = [epoch, draw.one(&[100_000, 300_000, 2_000_000]), draw.below(4), 200_000];
            args.extend([draw.below(3).to_string(), pid]);
            args.extend(numbers.map(|it| it.to_string()));
        }
        "limits" => {
            let charge = draw.below(3) * draw.below(60);
            args.push(format!("{pid} {} {charge}", draw.below(4) / 3));
            for (name, permits, per, burst, debt) in
                [("rpm", 100, 1_000_000_u64, 20, 0), ("tpm", 5_000, 1_000_000, 4_000, 1_000)]
            {
                let (mut permits, mut per, mut burst) = (permits, per, burst);
                if draw.below(15) == 0 {
                    (permits, per, burst) = draw.one(&[
                        (7_u64, 1_000_003, burst),
                        ((1 << 51) - 1, 31_536_000_000_000, 1 << 51),
                        (1, 31_536_000_000_000, 3),
                        (31_536_000_000_001, 31_536_000_000_000, 1 << 50),
                    ]);
                }
                let want = draw.below(2 * burst.min(2_000));
                let need = draw.below(want.min(burst) + 1);
                let (back, used) = (draw.below(12) / 10 * draw.below(burst), draw.below(burst.min(900)));
                let mut numbers =
                    [permits, per, burst, debt, want, need, back, used].map(|it| it.to_string());
                if draw.below(100) == 0 {
                    let at = draw.below(8) as usize;
                    numbers[at] = draw.one(&NO_NUMBERS).to_string();
                }
                args.push(format!("{name} {}", numbers.join(" ")));
            }
        }
        "cooldown" => {
            let span = draw.one(&[0, 0, 100_000, 2_000_000]);
            let mut numbers =
                [if span > 0 { draw.below(span) } else { 0 }, draw.below(33)].map(|it| it.to_string());
            if draw.below(100) == 0 {
                let at = draw.below(2) as usize;
                numbers[at] = draw.one(&NO_NUMBERS).to_string();
            }
            args.push(numbers.join(" "));
        }
        "slots" => {
            let op = draw.one(&[0, 0, 1, 2, 3]);
            args.extend([op.to_string(), pid, draw.below(12).to_string()]);
            args.extend([draw.one(&[500_000, 1_000_000]).to_string(), draw.below(9).to_string()]);
            args.push(draw.below(5).to_string());
            let count = if op == 0 || op == 3 { 0 } else { draw.below(6) };
            args.extend((0..count).map(|_| draw.one(fences).to_string()));
        }
        _ => {
            args.extend([pid, "1000000".to_string(), draw.below(1_000_001).to_string()]);
            for _ in 0..draw.below(6) {
                let spread = draw.one(&[40, 40, 40, 5_000, 20_000]);
                let bucket = i64::try_from(draw.below(spread)).unwrap() - i64::try_from(spread / 2).unwrap();
                args.extend([bucket.to_string(), draw.below(40).to_string()]);
            }
        }
    }
    if draw.below(100) == 0 {
        let at = draw.below(args.len() as u64) as usize;
        args[at] = draw.one(&NO_NUMBERS).to_string();
    }
    if draw.below(200) == 0 {
        args.truncate(draw.below(args.len() as u64) as usize);
    }
    args.into_iter().map(String::into_bytes).collect()
}

/// Commands with which other programs damage our keys.
fn mischief(draw: &mut Draw, keys: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (key, value) = (
        keys[draw.below(keys.len() as u64) as usize].clone(),
        draw.one(&[
            "",
            "x",
            "-1",
            "1.5",
            "nan",
            "0",
            "7",
            "4503599627370496",
            "4503599627370497",
            "12345678901234567",
            "7 500000",
            "4503599627369985 4503599627370496",
            "7 x",
            "1800000000250000 1 2 1800000000000000",
            "5000000 1800000000000000 1000000 3",
            "-70 1800000000000000 5 1000000",
            "-70 1800000000000000 5 5",
        ]),
    );
    let field = draw.one(&["a", "b", "e", "u", "d", "s", "n", "3", "-3", "junk", "tpm", "rpm"]);
    match draw.below(10) {
        0 => vec![b"FLUSHALL".to_vec()],
        1 => vec![b"SET".to_vec(), key, value.into()],
        _ if draw.below(2) == 0 => vec![b"DEL".to_vec(), key],
        _ => vec![b"HSET".to_vec(), key, field.into(), value.into()],
    }
}

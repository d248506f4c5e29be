//! A process's name in the store comes from the host's entropy, not from the engine's seed (semantics 10.13): two processes
//! of one seed are two.

use tidegate::fleet::{MemoryStore, Reply, StoreCommand, StoreKind};
use tidegate::{Action, Engine, Options, Policy, Request, RouteId, Time, Value};

use Value::{Number, Text};

const SECOND: u64 = 1_000_000;

struct Process {
    engine: Engine,
    route: RouteId,
}

impl Process {
    /// Every one has the same seed.
    fn new(entropy: u64) -> Self {
        let (mut engine, now) = (Engine::new(7, Options::default()), Time::from_micros(0));
        let _ = engine.attach_store(StoreKind::Lua, "", entropy, now);
        let pairs = [
            ("rate_limit.permits", Number(200.0)),
            ("rate_limit.per", Number(1e6)),
            ("rate_limit.burst", Number(20.0)),
            ("rate_limit.lease", Number(10.0)),
            ("rate_limit.store", Text("fleet")),
        ];
        let policy = engine.policy(Policy::from_pairs("api", &pairs).unwrap()).unwrap();
        let route = engine.route(policy, "eu", now);
        Self { engine, route }
    }

    /// One call at this moment that does not wait: has it started? The store answers at once, where it is there.
    fn call(&mut self, at: u64, store: Option<&mut MemoryStore>) -> bool {
        let now = Time::from_micros(at);
        let request = Request { may_park: false, ..Request::default() };
        let (_, step) = self.engine.begin(self.route, &request, now);
        let mut commands: Vec<StoreCommand> = Vec::new();
        let mut store = store;
        while {
            self.engine.take_commands(&mut commands);
            !commands.is_empty()
        } {
            for command in commands.drain(..) {
                let answer =
                    store.as_mut().map(|store| store.execute(&command.words, 1_800_000_000 * SECOND + at));
                let reply = match &answer {
                    Some(Ok(bytes)) => Reply::Bytes(bytes),
                    Some(Err(text)) => Reply::Error(text.as_bytes()),
                    None => Reply::Lost,
                };
                let _ = self.engine.on_reply(command.id, reply, now);
            }
        }
        matches!(step.action(), Action::Attempt { .. })
    }
}

/// Calls of both that start in the two seconds after the store was lost.
fn started_alone(entropies: [u64; 2]) -> usize {
    let mut processes = entropies.map(Process::new);
    let mut store = MemoryStore::new();
    for at in (0..SECOND).step_by(2_000) {
        for process in &mut processes {
            process.call(at, Some(&mut store));
        }
    }
    let mut started = 0;
    for at in (SECOND..3 * SECOND).step_by(1_000) {
        started += processes.iter_mut().map(|it| usize::from(it.call(at, None))).sum::<usize>();
    }
    started
}

#[test]
fn a_rate_of_200_stays_200_when_the_store_of_two_equal_seeds_is_lost() {
    let two = started_alone([1, 2]);
    // The rate, a burst, and a lease in each process.
    assert!((350..=440).contains(&two), "{two} in two seconds at 200/s");
    let one = started_alone([1, 1]);
    assert!(one > 700, "that is what a name for both would do: {one}");
}

#[test]
fn children_of_one_fork_are_two_processes() {
    let names = |seeds: [u64; 2]| {
        seeds.map(|seed| {
            let mut it = Process::new(1);
            let _ = it.engine.after_fork(seed, Time::from_micros(0));
            let (_, _) = it.engine.begin(it.route, &Request::default(), Time::from_micros(0));
            let mut commands = Vec::new();
            it.engine.take_commands(&mut commands);
            commands.remove(0).words[6].clone()
        })
    };
    let [one, two] = names([3, 4]);
    assert_ne!(one, two);
    let [parent] = [Process::new(1)].map(|mut it| {
        let (_, _) = it.engine.begin(it.route, &Request::default(), Time::from_micros(0));
        let mut commands = Vec::new();
        it.engine.take_commands(&mut commands);
        commands.remove(0).words[6].clone()
    });
    assert!(parent != one && parent != two && parent.len() == 16);
}

//! The fleet: state that many processes share through a store (semantics 10). The engine writes the commands and reads
//! the replies; this module transports both.
//!
//! Commands run detached from any call, each in a task of the runtime in which the store was attached, so no call is
//! delayed by a command or cancels one. Each command is dropped after the time that the engine allows it. Nothing is
//! repeated and nothing is parsed.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Weak};

use tidegate::Flags;
pub use tidegate::fleet::StoreKind;
use tidegate::fleet::{CommandId, Reply, StoreCommand};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use crate::clock;
use crate::engine::{Engine, Shared, random};

/// The store's reply to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The reply's bytes: a bulk string unchanged, an integer as its decimal text, nil as no bytes.
    Bytes(Vec<u8>),
    /// The store's error: its text without the protocol's sign, such as `NOSCRIPT No matching script`.
    Error(Vec<u8>),
    /// No reply. It is unknown whether the command was carried out.
    Lost,
}

/// Carries commands to a store, with any client. `RedisStore` (feature `redis`) is one for redis-rs.
pub trait Store: Send + Sync + 'static {
    /// Carries out one command, once: its name and arguments as they go over the wire. `key` is the index in `words` of
    /// the key by which a cluster routes. The future is dropped when the command's time is up.
    fn execute(&self, words: Vec<Vec<u8>>, key: usize) -> impl Future<Output = Answer> + Send;
}

/// The attached store.
pub(crate) struct Link(Box<dyn Fn(StoreCommand) + Send + Sync>);

impl Link {
    fn new(store: impl Store, shared: &Arc<Shared>) -> Self {
        let (store, shared, runtime) = (Arc::new(store), Arc::downgrade(shared), Handle::current());
        Self(Box::new(move |command| {
            let store = Arc::clone(&store);
            let owed = Owed { shared: Weak::clone(&shared), id: Some(command.id) };
            runtime.spawn(async move {
                let until = clock::after(Instant::now(), command.within);
                let answer = timeout_at(until, store.execute(command.words, command.key.into())).await;
                owed.deliver(&answer.unwrap_or(Answer::Lost));
            });
        }))
    }

    pub fn carry(&self, command: StoreCommand) {
        (self.0)(command);
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link")
    }
}

/// A reply that the engine waits for. The engine always gets one: if the store panics or the runtime shuts down,
/// dropping this reports the command as lost.
struct Owed {
    shared: Weak<Shared>,
    id: Option<CommandId>,
}

impl Owed {
    fn deliver(mut self, answer: &Answer) {
        self.reply(match answer {
            Answer::Bytes(bytes) => Reply::Bytes(bytes),
            Answer::Error(text) => Reply::Error(text),
            Answer::Lost => Reply::Lost,
        });
    }

    fn reply(&mut self, reply: Reply<'_>) {
        if let (Some(id), Some(shared)) = (self.id.take(), self.shared.upgrade()) {
            shared.with(|core, now| ((), core.engine.on_reply(id, reply, now)));
        }
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        self.reply(Reply::Lost);
    }
}

impl Engine {
    /// Attaches the store that the fleet shares. Call it before making the first policy with `store = "fleet"`.
    /// Services that share a server need different namespaces; an empty one means `tidegate`. An engine has one store:
    /// attaching another changes nothing.
    ///
    /// # Panics
    /// If called outside a tokio runtime: commands run in the caller's runtime.
    pub fn attach_store(&self, store: impl Store, kind: StoreKind, namespace: &str) {
        let link = Link::new(store, &self.shared);
        if self.shared.link.set(link).is_ok() {
            let process = random();
            self.shared.with(|core, now| -> ((), Flags) {
                ((), core.engine.attach_store(kind, namespace, process, now))
            });
        }
    }
}

#[cfg(feature = "redis")]
mod redis {
    use std::fmt;
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicU64, Ordering};

    use redis::aio::ConnectionLike;
    use redis::{Cmd, RedisError, RedisResult, Value};
    use tokio::sync::Mutex;

    use super::{Answer, Store};

    /// Sends commands with redis-rs: over a multiplexed connection, a connection manager, or a cluster's connection. It
    /// clones the connection for each command, as redis-rs intends.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tidegate_tokio::fleet::{RedisStore, StoreKind};
    /// use tidegate_tokio::settings::{RateLimit, StateOf};
    /// use tidegate_tokio::{Engine, Policy};
    /// # async fn attach() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = redis::Client::open("redis://cache:6379")?;
    /// let connection = client.get_connection_manager().await?;
    /// Engine::shared().attach_store(RedisStore::new(connection), StoreKind::Lua, "shop");
    /// let partner = Policy::builder("partner")
    ///     .rate_limit(RateLimit::new(100, Duration::from_secs(1)).store(StateOf::Fleet))
    ///     .build()?;
    /// # let _ = partner;
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Clone, Debug)]
    pub struct RedisStore<C>(C);

    impl<C> RedisStore<C> {
        /// A store that uses this connection.
        pub const fn new(connection: C) -> Self {
            Self(connection)
        }
    }

    impl<C: ConnectionLike + Clone + Send + Sync + 'static> Store for RedisStore<C> {
        async fn execute(&self, words: Vec<Vec<u8>>, _: usize) -> Answer {
            let mut connection = self.0.clone();
            run(&mut connection, &words).await.unwrap_or_else(|error| failed(&error))
        }
    }

    type Connecting<C> = Pin<Box<dyn Future<Output = RedisResult<C>> + Send>>;

    /// Sends commands with redis-rs over a connection that is made for the first command, and made again after it
    /// broke.
    ///
    /// The program does not wait for the server when it starts. A server that cannot be reached or that refuses the
    /// password counts as a lost store: after at most `store_timeout` calls follow `on_loss`, and each later command
    /// tries to connect again.
    ///
    /// ```
    /// use tidegate_tokio::Engine;
    /// use tidegate_tokio::fleet::{LazyRedisStore, StoreKind};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = redis::Client::open("redis://cache:6379")?;
    /// let store = LazyRedisStore::new(move || {
    ///     let client = client.clone();
    ///     async move { client.get_multiplexed_async_connection().await }
    /// });
    /// Engine::new(7).attach_store(store, StoreKind::Lua, "shop");
    /// # Ok(())
    /// # }
    /// ```
    pub struct LazyRedisStore<C> {
        connect: Box<dyn Fn() -> Connecting<C> + Send + Sync>,
        /// The number of the newest connection, from 1 on, and that connection unless it broke.
        connection: Mutex<(u64, Option<C>)>,
        /// The number of the newest connection of which a command got no reply in time: it may never reply again.
        silent: AtomicU64,
    }

    /// Notes the connection when its command is dropped because its time is up.
    struct Unanswered<'a>(&'a AtomicU64, u64);

    impl Drop for Unanswered<'_> {
        fn drop(&mut self) {
            self.0.fetch_max(self.1, Ordering::Relaxed);
        }
    }

    impl<C> LazyRedisStore<C> {
        /// A store that connects by calling this function. The connection attempt is dropped when its command's time is
        /// up.
        pub fn new<F>(connect: impl Fn() -> F + Send + Sync + 'static) -> Self
        where
            F: Future<Output = RedisResult<C>> + Send + 'static,
        {
            let connect = Box::new(move || Box::pin(connect()) as Connecting<C>);
            Self { connect, connection: Mutex::new((0, None)), silent: AtomicU64::new(0) }
        }
    }

    impl<C> fmt::Debug for LazyRedisStore<C> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("LazyRedisStore")
        }
    }

    impl<C: ConnectionLike + Clone + Send + Sync + 'static> Store for LazyRedisStore<C> {
        async fn execute(&self, words: Vec<Vec<u8>>, _: usize) -> Answer {
            let mut held = self.connection.lock().await;
            if self.silent.load(Ordering::Relaxed) == held.0 {
                held.1 = None;
            }
            let mut connection = match &held.1 {
                Some(connection) => connection.clone(),
                None => match (self.connect)().await {
                    Ok(connection) => {
                        held.0 += 1;
                        held.1.insert(connection).clone()
                    }
                    Err(error) => return failed(&error),
                },
            };
            let number = held.0;
            drop(held);
            let unanswered = Unanswered(&self.silent, number);
            let answer = run(&mut connection, &words).await;
            std::mem::forget(unanswered);
            match answer {
                Ok(answer) => answer,
                Err(error) => {
                    if error.is_io_error() || error.is_connection_dropped() {
                        // Other commands may have made a new one meanwhile.
                        let mut held = self.connection.lock().await;
                        if held.0 == number {
                            held.1 = None;
                        }
                    }
                    failed(&error)
                }
            }
        }
    }

    async fn run<C: ConnectionLike>(connection: &mut C, words: &[Vec<u8>]) -> RedisResult<Answer> {
        // redis-rs finds the command's key by itself.
        let mut command = Cmd::new();
        for word in words {
            command.arg(word.as_slice());
        }
        Ok(match connection.req_packed_command(&command).await? {
            Value::BulkString(bytes) => Answer::Bytes(bytes),
            Value::Int(number) => Answer::Bytes(number.to_string().into_bytes()),
            Value::Nil => Answer::Bytes(Vec::new()),
            Value::SimpleString(text) => Answer::Bytes(text.into_bytes()),
            Value::Okay => Answer::Bytes(b"OK".to_vec()),
            Value::ServerError(error) => failed(&error.into()),
            // No script of ours replies so; the engine treats these bytes as garbled.
            _ => Answer::Bytes(b"?".to_vec()),
        })
    }

    /// Converts a server's error to a reply that starts with its first word, and any other error to a lost reply.
    fn failed(error: &RedisError) -> Answer {
        match error.code() {
            Some(code) => {
                Answer::Error(format!("{code} {}", error.detail().unwrap_or_default()).into_bytes())
            }
            None => Answer::Lost,
        }
    }
}

#[cfg(feature = "redis")]
pub use redis::{LazyRedisStore, RedisStore};
pub use tidegate::fleet::MemoryStore;

//! The policies of a document that can be replaced by a newer version while they are in use.

use std::collections::BTreeMap;
use std::fmt;

use parking_lot::Mutex;
use tidegate::{Changes, Document, Flags, UnknownPolicy};

use crate::engine::Engine;
use crate::error::BuildError;
use crate::policy::Policy;

/// The policies of a document, by name. Made by [`Engine::policies`].
///
/// ```
/// use tidegate_tokio::tidegate::Document;
/// use tidegate_tokio::Engine;
/// let document = |text| Document::from_toml(text).unwrap();
/// let policies = Engine::new(7).policies(document("policy.reads.deadline = '2s'")).unwrap();
/// let reads = policies.get("reads").unwrap();
/// let changes = policies.reload(document("policy.reads.deadline = '1s'\npolicy.writes.deadline = '1s'")).unwrap();
/// assert_eq!((changes.added, changes.changed), (vec!["policy.writes".into()], vec!["policy.reads".into()]));
/// assert!(reads.explain().to_string().contains("deadline: 1s"));
/// assert!(policies.get("write").unwrap_err().to_string().contains("did you mean writes?"));
/// ```
pub struct Policies {
    engine: Engine,
    state: Mutex<State>,
}

struct State {
    document: Document,
    made: BTreeMap<String, Policy>,
}

impl Policies {
    pub(crate) fn new(engine: &Engine, document: Document) -> Result<Self, BuildError> {
        let policies = engine.load(&document)?;
        let made = policies.into_iter().map(|policy| (policy.name().to_owned(), policy)).collect();
        Ok(Self { engine: engine.clone(), state: Mutex::new(State { document, made }) })
    }

    /// Finds the policy of this name.
    ///
    /// # Errors
    /// The document has none; the error lists the names that it has.
    pub fn get(&self, name: &str) -> Result<Policy, UnknownPolicy> {
        let state = self.state.lock();
        state.document.policy(name)?;
        Ok(state.made[name].clone())
    }

    /// The names of all policies, sorted.
    pub fn names(&self) -> Vec<String> {
        self.state.lock().made.keys().cloned().collect()
    }

    /// A digest of the document's settings, as 16 hexadecimal digits. Processes with the same digest have the same
    /// settings, in any language and format.
    pub fn digest(&self) -> String {
        format!("{:016x}", self.state.lock().document.digest())
    }

    /// Applies a newer version of the document while its policies are in use: all of it, or nothing.
    ///
    /// Policies and pools of both versions keep their counts, and calls in flight finish under the settings that they
    /// began with. A policy that the newer version lacks keeps its settings, for code that still uses it.
    ///
    /// # Errors
    /// All changes that cannot be applied, as [`BuildError::Mistakes`]; nothing has changed then. A policy keeps the pools that it names, and a pool
    /// keeps its kind. A new name may not be in use by another policy or pool of the engine.
    ///
    /// # Panics
    /// Never: the engine has all policies of the documents that it has applied.
    pub fn reload(&self, to: Document) -> Result<Changes, BuildError> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let (shared, mut used) = (&self.engine.shared, Vec::new());
        // New policies are made under the engine's lock, so that no change of their settings passes them by.
        let fresh = shared.with(|core, now| match core.engine.reload(&state.document, &to, now) {
            Ok(flags) => {
                let mut fresh = Vec::new();
                for settings in to.policies() {
                    let Some(id) = core.engine.policy_named(settings.name()) else { continue };
                    shared.handles.renew(id, settings, &mut used);
                    if !state.made.contains_key(settings.name()) {
                        fresh.push((settings.name().to_owned(), Policy::taken(&self.engine, id, settings)));
                    }
                }
                (Ok(fresh), flags)
            }
            Err(mistakes) => (Err(mistakes), Flags::default()),
        })?;
        state.made.retain(|name, _| to.policies().any(|it| it.name() == name));
        state.made.extend(fresh);
        let changes = state.document.changes(&to);
        state.document = to;
        Ok(changes)
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policies").field("names", &self.names()).field("digest", &self.digest()).finish()
    }
}

//! How a call begins, and how it is cancelled.

use std::ops::Deref;
#[cfg(feature = "tower")]
use std::{mem::forget, sync::Arc};

#[cfg(feature = "tower")]
use tidegate::Action;
use tidegate::{CallId, Event};

use crate::engine::Reply;
use crate::policy::Site;
use crate::scope;
#[cfg(feature = "tower")]
use crate::scope::{Aimed, Inside};

/// Begins a call with the deadline, criticality and parent call of the scope around it.
#[inline]
pub(super) fn begin<P: Deref<Target = Site>>(
    site: &P,
    replayable: bool,
    path: Option<&str>,
) -> (CallId, Reply) {
    let site = &**site;
    let inherited = scope::inherited(site.shared().number);
    let mut request = site.request;
    request.replayable &= replayable;
    request.parent = inherited.parent;
    if let (Some(criticality), false) = (inherited.criticality, site.own_criticality) {
        request.criticality = criticality;
    }
    let to = (site.policy.id, &*site.key);
    site.shared().begin(&site.route, to, &mut request, (path, inherited.ends), site.weights.as_ref())
}

/// Reports the caller's cancellation to the engine when it is dropped.
pub(super) struct Cancel<'a> {
    pub site: &'a Site,
    pub call: CallId,
    /// Whether a waker is registered for the call.
    pub parked: bool,
}

impl Drop for Cancel<'_> {
    fn drop(&mut self) {
        let shared = self.site.shared();
        if shared.advance(self.call, Event::Cancel, None, self.parked).others {
            shared.tend();
        }
    }
}

/// A call that has begun before its future is made.
#[cfg(feature = "tower")]
#[derive(Clone, Copy)]
pub(crate) struct Begun {
    pub(super) call: CallId,
    pub(super) reply: Reply,
    pub(super) replayable: bool,
}

#[cfg(feature = "tower")]
impl Begun {
    /// Begins a call towards this path.
    #[inline]
    pub fn of(site: &Arc<Site>, replayable: bool, path: Option<&str>) -> Self {
        let (call, reply) = begin(site, replayable, path);
        if reply.others {
            site.shared().tend();
        }
        Self { call, reply, replayable }
    }

    /// Whether the call may start at once.
    #[inline]
    pub const fn starts(&self) -> bool {
        matches!(self.reply.step.action(), Action::Attempt { .. })
    }

    /// Makes the first attempt of a call that [`starts`](Self::starts) at once. If `make` panics, the call is cancelled.
    #[inline]
    pub fn first<Fut>(&self, site: &Site, make: impl FnOnce() -> Fut) -> Fut {
        let cancel = Cancel { site, call: self.call, parked: false };
        let number = site.shared().number;
        let future = {
            let _inside = Inside::new(number, self.call);
            let _aimed = site.policy.has_targets().then(|| Aimed::new(number, self.call, 1));
            make()
        };
        forget(cancel);
        future
    }
}

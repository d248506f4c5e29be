//! How a call begins, and how it is cancelled.

use std::ops::Deref;

use tidegate::{CallId, Event};

use crate::engine::Reply;
use crate::policy::Site;
use crate::scope;

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

//! A call as the engine knows it: begun, and cancelled where its caller lets go of it.

use std::ops::Deref;
use std::task::Context;
use std::time::Duration;

use tidegate::{Action, CallId, Event, Step};

use crate::clock;
use crate::engine::{Told, wakes};
use crate::policy::Site;
use crate::scope::{self, Inside};

/// Tells the engine, when it is dropped, that the caller gave up.
pub(super) struct Guard<P: Deref<Target = Site>> {
    pub site: P,
    pub call: Option<CallId>,
    /// Is a waker registered for it?
    pub parked: bool,
}

impl<P: Deref<Target = Site>> Drop for Guard<P> {
    #[inline]
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            let shared = self.site.shared();
            let told = shared.tell(call, Event::Cancel, None, self.parked);
            if told.others {
                shared.tend();
            }
        }
    }
}

impl<P: Deref<Target = Site>> Guard<P> {
    /// Time that an attempt has which starts now.
    #[inline]
    pub fn remaining(&self, next: Option<tidegate::Duration>) -> Option<Duration> {
        // The timer may be due for a hedge before that.
        if self.site.policy.hedges() { self.left() } else { next.map(clock::std) }
    }

    #[cold]
    fn left(&self) -> Option<Duration> {
        let call = self.call?;
        let left = self.site.shared().look(|core, now| core.engine.time_left(call, now));
        left.map(clock::std)
    }

    /// What is around the attempts: this call.
    #[inline]
    pub fn inside(&self) -> Option<Inside> {
        self.call.map(|call| Inside::new(self.site.shared().number, call))
    }

    /// Begins the call, with what it takes from around it.
    #[inline]
    pub fn begin(&mut self, replayable: bool, path: Option<&str>) -> (CallId, Told) {
        let site = &*self.site;
        let inherited = scope::inherited(site.shared().number);
        let mut request = site.request;
        request.replayable &= replayable;
        request.parent = inherited.parent;
        if let (Some(criticality), false) = (inherited.criticality, site.own_criticality) {
            request.criticality = criticality;
        }
        let (call, told) = site.shared().begin(
            &site.route,
            (site.policy.id, &site.key),
            &mut request,
            (path, inherited.ends),
        );
        self.call = Some(call);
        (call, told)
    }

    /// A step that is to wait: its owner registers first, and asks again then (R3).
    #[inline]
    pub fn register(&mut self, call: CallId, told: Told, cx: &Context<'_>) -> Told {
        match told.step.action {
            Action::Wait { why } if wakes(why) => {
                let again = self.site.shared().tell(call, Event::Poll, Some(cx.waker()), false);
                self.parked = matches!(again.step.action, Action::Wait { why } if wakes(why));
                // What the first one has stopped is still to be stopped.
                let step = Step { stop: told.step.stop | again.step.stop, ..again.step };
                Told { step, others: told.others | again.others, ..again }
            }
            _ => told,
        }
    }
}

//! An engine's snapshot as plain dictionaries and lists.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tidegate::{
    BreakerState, BreakerView, CooldownView, Counts, Duration, HedgeView, HoldView, LimitView, PoolView,
    RateView, RouteView, SendView, SharedView, Snapshot, TargetView, ThrottleView, Verdict,
};

pub fn dict(py: Python<'_>, view: Snapshot) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("live", view.live)?;
    dict.set_item("lingering", view.lingering)?;
    dict.set_item("lost", view.lost)?;
    dict.set_item("waiting", view.waiting)?;
    dict.set_item("route_overflows", view.route_overflows)?;
    dict.set_item("route_evictions", view.route_evictions)?;
    dict.set_item("path_overflows", view.path_overflows)?;
    dict.set_item("late_settlements", view.late_settlements)?;
    let policies = PyDict::new(py);
    for (name, of) in view.policies {
        policies.set_item(name, counts(py, &of)?)?;
    }
    dict.set_item("policies", policies)?;
    let routes = view.routes.into_iter().map(|of| route(py, of)).collect::<PyResult<Vec<_>>>()?;
    dict.set_item("routes", PyList::new(py, routes)?)?;
    let pools = PyDict::new(py);
    for of in view.pools {
        pools.set_item(&of.name, shared(py, &of)?)?;
    }
    dict.set_item("pools", pools)?;
    let targets = view.targets.into_iter().map(|of| target(py, of)).collect::<PyResult<Vec<_>>>()?;
    dict.set_item("targets", PyList::new(py, targets)?)?;
    Ok(dict)
}

fn counts<'py>(py: Python<'py>, counts: &Counts) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("attempts", counts.attempts)?;
    dict.set_item("retries", counts.retries)?;
    dict.set_item("hedges", counts.hedges)?;
    let ends = PyDict::new(py);
    for verdict in Verdict::ALL {
        match counts.ended(*verdict) {
            0 => {}
            n => ends.set_item(verdict.name(), n)?,
        }
    }
    dict.set_item("ends", ends)?;
    Ok(dict)
}

fn route(py: Python<'_>, of: RouteView) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("policy", of.policy)?;
    dict.set_item("key", of.key)?;
    dict.set_item("active", of.active)?;
    dict.set_item("forced", of.forced)?;
    dict.set_item("budget", of.budget)?;
    dict.set_item("pool", of.pool.map(|of| permits(py, of)).transpose()?)?;
    dict.set_item("rate", of.rate.map(|rate| tokens(py, rate, &of.limits)).transpose()?)?;
    dict.set_item("send", of.send.map(|of| send(py, of)).transpose()?)?;
    dict.set_item("breaker", of.breaker.map(|of| breaker(py, of)).transpose()?)?;
    dict.set_item("throttle", of.throttle.map(|of| throttle(py, of)).transpose()?)?;
    dict.set_item("hedge", of.hedge.map(|of| hedge(py, of)).transpose()?)?;
    dict.set_item("hold", of.hold.map(|of| hold(py, of)).transpose()?)?;
    dict.set_item("cooldown", of.cooldown.map(|of| cooldown(py, of)).transpose()?)?;
    Ok(dict)
}

fn shared<'py>(py: Python<'py>, of: &SharedView) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("kind", of.kind.name())?;
    dict.set_item("budget", of.budget)?;
    dict.set_item("pool", of.pool.map(|of| permits(py, of)).transpose()?)?;
    dict.set_item("rate", of.rate.map(|rate| tokens(py, rate, &of.limits)).transpose()?)?;
    Ok(dict)
}

fn target(py: Python<'_>, of: TargetView) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("group", of.group)?;
    dict.set_item("name", of.name)?;
    dict.set_item("forced", of.forced)?;
    dict.set_item("attempts", of.attempts)?;
    dict.set_item("skipped", of.skipped)?;
    dict.set_item("in_flight", of.in_flight)?;
    dict.set_item("estimate", of.estimate.map(seconds))?;
    dict.set_item("pool", of.pool.map(|of| permits(py, of)).transpose()?)?;
    dict.set_item("rate", of.rate.map(|rate| tokens(py, rate, &[])).transpose()?)?;
    dict.set_item("breaker", of.breaker.map(|of| breaker(py, of)).transpose()?)?;
    Ok(dict)
}

fn permits(py: Python<'_>, of: PoolView) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("limit", of.limit)?;
    dict.set_item("kind", of.kind.name())?;
    dict.set_item("in_flight", of.in_flight)?;
    dict.set_item("waiting", of.waiting)?;
    dict.set_item("max_queue", of.max_queue)?;
    Ok(dict)
}

fn tokens<'py>(py: Python<'py>, of: RateView, limits: &[LimitView]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("tokens", of.tokens)?;
    dict.set_item("waiting", of.waiting)?;
    let set = PyDict::new(py);
    for limit in limits {
        let one = PyDict::new(py);
        one.set_item("weight", limit.weight.as_deref())?;
        one.set_item("tokens", limit.tokens)?;
        one.set_item("burst", limit.burst)?;
        one.set_item("reserved", limit.reserved)?;
        one.set_item("settled", limit.settled)?;
        one.set_item("forgiven", limit.forgiven)?;
        set.set_item(&limit.name, one)?;
    }
    dict.set_item("limits", set)?;
    Ok(dict)
}

fn breaker(py: Python<'_>, of: BreakerView) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    let state = match of.state {
        BreakerState::Closed => "closed",
        BreakerState::Open => "open",
        BreakerState::HalfOpen => "half_open",
    };
    dict.set_item("state", state)?;
    dict.set_item("failures", of.failures)?;
    dict.set_item("throughput", of.throughput)?;
    dict.set_item("retry_in", of.retry_in.map(seconds))?;
    Ok(dict)
}

fn send(py: Python<'_>, of: SendView) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("rate", of.rate)?;
    dict.set_item("waiting", of.waiting)?;
    Ok(dict)
}

fn throttle(py: Python<'_>, of: ThrottleView) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("requests", of.requests)?;
    dict.set_item("accepts", of.accepts)?;
    dict.set_item("probability", of.probability)?;
    Ok(dict)
}

fn hedge(py: Python<'_>, of: HedgeView) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("delay", seconds(of.delay))?;
    dict.set_item("budget", of.budget)?;
    Ok(dict)
}

fn hold(py: Python<'_>, of: HoldView) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("held", of.held)?;
    dict.set_item("holds", of.holds)?;
    Ok(dict)
}

fn cooldown(py: Python<'_>, of: CooldownView) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("state", of.state.name())?;
    dict.set_item("retry_in", of.retry_in.map(seconds))?;
    dict.set_item("places", of.places)?;
    dict.set_item("taken", of.taken)?;
    dict.set_item("waiting", of.waiting)?;
    Ok(dict)
}

fn seconds(span: Duration) -> f64 {
    span.as_micros() as f64 / 1e6
}

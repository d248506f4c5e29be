//! Workers, the queue, its bound, and clients that leave.

use crate::client::{asked, eventually, get, origin};
use serde_json::{Value, json};
use std::time::Instant;
use tidegate_origin::Origin;

fn with(workers: usize, queue: usize, service: u64, notices_disconnect: bool) -> Value {
    json!({"capacity": {"workers": workers, "queue": queue, "service": service,
                        "when_full": {"status": 503, "retry_after": "1"},
                        "notices_disconnect": notices_disconnect}})
}

/// Sends `n` requests on separate connections, each after the one before has arrived.
fn lined_up(origin: &Origin, n: usize) -> Vec<crate::client::Client> {
    let before = origin.stats();
    let mut clients = Vec::new();
    for i in 1..=n {
        clients.push(asked(origin, &format!("/{i}")));
        eventually("it is queued or served", || {
            let now = origin.stats();
            now.in_service + now.queued == before.in_service + before.queued + i
        });
    }
    clients
}

#[test]
fn the_queue_is_first_in_first_out() {
    let origin = origin(&with(1, 10, 40, false));
    for client in &mut lined_up(&origin, 5) {
        assert_eq!(client.reply().expect("an answer").status, 200);
    }
    let log = origin.log();
    let times: Vec<f64> = log.iter().map(|entry| entry.answered_t.expect("all are answered")).collect();
    assert!(times.is_sorted(), "answered in the order of arrival: {times:?}");
    assert!(times[4] - log[0].t >= 0.2, "one worker, five times 40 ms");
}

#[test]
fn the_queue_is_bounded() {
    let origin = origin(&with(2, 3, 1_500, false));
    let mut inside = lined_up(&origin, 5);
    let reply = get(&origin, "/full");
    assert_eq!((reply.status, reply.header("retry-after")), (503, vec!["1"]));
    let stats = origin.stats();
    assert_eq!((stats.in_service, stats.queued), (2, 3), "refused while the others were there");
    for client in &mut inside {
        assert_eq!(client.reply().expect("an answer").status, 200);
    }
    let stats = origin.stats();
    assert_eq!((stats.max_in_service, stats.max_queued), (2, 3));
    eventually("all is idle again", || origin.stats().in_service + origin.stats().queued == 0);
    assert_eq!(stats.by_status, [(200, 5), (503, 1)].into());
}

#[test]
fn a_queue_of_zero_refuses_all_but_the_workers() {
    let origin = origin(&with(1, 0, 200, false));
    let mut first = lined_up(&origin, 1);
    assert_eq!(get(&origin, "/").status, 503);
    assert_eq!(first[0].reply().expect("an answer").status, 200);
}

#[test]
fn work_goes_on_for_a_client_that_left() {
    let origin = origin(&with(1, 10, 150, false));
    let mut clients = lined_up(&origin, 3);
    let mut last = clients.pop().expect("three");
    drop(clients);
    eventually("two have left", || origin.stats().abandoned == 2);
    assert_eq!(origin.stats().in_service + origin.stats().queued, 3, "their work is still there");
    last.reply().expect("an answer");
    let entry = &origin.log()[2];
    assert!(
        entry.answered_t.expect("answered") - origin.log()[0].t >= 0.45,
        "it waited for the work of both"
    );
}

#[test]
fn an_origin_that_notices_drops_the_work() {
    let origin = origin(&with(1, 10, 2_000, true));
    let mut clients = lined_up(&origin, 3);
    drop(clients.remove(1));
    eventually("the one in the queue is gone", || origin.stats().queued == 1);
    drop(clients.remove(0));
    eventually("the one in service is gone, the last moves up", || {
        let stats = origin.stats();
        (stats.in_service, stats.queued, stats.abandoned) == (1, 0, 2)
    });
    assert!(origin.stats().t < 2.0, "long before the work would have ended");
}

#[test]
fn answers_may_stay_out_of_capacity_or_go_into_it() {
    let mut script = with(1, 0, 150, false);
    script["rules"] = json!([
        {"match": {"path": "/health"}, "respond": {"status": 204}},
        {"match": {"path": "/slow-error"}, "respond": {"status": 500, "uses_capacity": true}}]);
    let origin = origin(&script);
    let mut busy = asked(&origin, "/slow-error");
    eventually("the worker is busy", || origin.stats().in_service == 1);
    assert_eq!(get(&origin, "/health").status, 204);
    assert_eq!(get(&origin, "/").status, 503, "the default uses capacity");
    assert_eq!(busy.reply().expect("an answer").status, 500);
}

#[test]
fn throughput_is_what_workers_and_service_say() {
    let origin = origin(&with(4, 100, 8, false)); // 500 a second
    let begin = Instant::now();
    let mut clients: Vec<_> = (0..100).map(|_| asked(&origin, "/")).collect();
    for client in &mut clients {
        assert_eq!(client.reply().expect("an answer").status, 200);
    }
    let took = begin.elapsed().as_secs_f64();
    assert!((0.19..1.0).contains(&took), "100 requests at 500 a second took {took} s");
}

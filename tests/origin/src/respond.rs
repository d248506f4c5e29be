//! Answers requests.

use crate::capacity::Ticket;
use crate::fault::{AnswerBody, Ended, Exit, ExitSlot, SlowBody, pause};
use crate::provider::{Api, PacedBody, ProviderRequest, Till};
use crate::run::{Decision, Plan, Run};
use crate::script::{Fault, Response, RetryAfter};
use crate::stats::Pending;
use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::{Request, StatusCode};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::oneshot;

type Answer = hyper::Response<AnswerBody>;

/// Answers one request of the data port as the run's script wants it.
///
/// hyper drops this future when the client leaves; `Pending` then counts the request as abandoned.
pub(crate) async fn respond(
    run: Arc<Run>,
    connection: u64,
    exit: ExitSlot,
    request: Request<Incoming>,
) -> Result<Answer, Ended> {
    let (pending, decision) = run.arrive(&request, connection);
    if let Decision::Provide(api, seed) = decision {
        return provide(&run, api, seed, pending, exit, request).await;
    }
    let keep_all = matches!(&decision, Decision::Answer(plan) if plan.response.echo);
    let content_type = request.headers().get(CONTENT_TYPE).cloned();
    let Some((length, body)) = read(request.into_body(), keep_all).await else { return Err(Ended) };
    pending.body(length, &body);
    let Decision::Answer(plan) = decision else {
        pending.faulted("refused", None);
        return Err(exit.leave(Exit::reset()));
    };
    let (response, delay) = through_capacity(&run, &plan).await;
    pause(delay).await;
    let mut headers = head(&response);
    let body = if response.echo {
        if let Some(content_type) = content_type {
            headers.entry(CONTENT_TYPE).or_insert(content_type);
        }
        body
    } else {
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("text/plain; charset=utf-8"));
        response.body.clone()
    };
    finish(&response, headers, body, plan.seed, pending, &exit).await
}

/// Answers as the script's provider of language models.
async fn provide(
    run: &Run,
    api: Api,
    seed: u64,
    pending: Pending,
    exit: ExitSlot,
    request: Request<Incoming>,
) -> Result<Answer, Ended> {
    let (head, body) = request.into_parts();
    let Some((length, body)) = read(body, true).await else { return Err(Ended) };
    pending.body(length, &body);
    let provider = run.provider.clone().expect("the run decided for its provider");
    let request = ProviderRequest {
        api,
        path: head.uri.path(),
        query: head.uri.query().unwrap_or_default(),
        headers: &head.headers,
        body: &body,
        seed,
    };
    let (key, reply) = provider.decide(run.ledger.t(), &request);
    if reply.hangs {
        pending.hangs("hang");
        return std::future::pending().await;
    }
    pause(reply.delay).await;
    let status = StatusCode::from_u16(reply.status).expect("a provider answers 200 to 599");
    let headers = reply.headers.clone();
    let body = PacedBody::new(reply, Till { provider, key }, pending, exit);
    let mut answer = hyper::Response::new(AnswerBody::Paced(Box::new(body)));
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    Ok(answer)
}

/// A longer echoed body is cut off; a test that needs more needs a real server.
const MOST_ECHO: usize = 64 * 1024 * 1024;
const KEPT: usize = 4096;

/// The body's length, and as much of it as is needed; `None` if the client broke off.
async fn read(mut body: Incoming, keep_all: bool) -> Option<(u64, Bytes)> {
    let most = if keep_all { MOST_ECHO } else { KEPT };
    let (mut length, mut kept) = (0, Vec::new());
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.ok()?.into_data() {
            length += data.len() as u64;
            kept.extend_from_slice(&data[..data.len().min(most - kept.len())]);
        }
    }
    Some((length, Bytes::from(kept)))
}

/// Waits for a worker and its work if the answer needs one. Returns the answer, or that of a full queue, with its
/// delay.
async fn through_capacity(run: &Arc<Run>, plan: &Plan) -> (Arc<Response>, Duration) {
    let scripted = (plan.response.clone(), plan.delay);
    let (Some(capacity), Some(script)) = (&run.capacity, &run.script.capacity) else { return scripted };
    if !plan.response.uses_capacity {
        return scripted;
    }
    let Some(ticket) = capacity.enter() else { return (script.when_full.clone(), plan.when_full_delay) };
    let work = work(ticket, run.clone(), plan.service);
    if script.notices_disconnect {
        work.await;
    } else {
        // In a separate task, so that the work continues when hyper drops this future because the client has left.
        let (done, when_done) = oneshot::channel();
        tokio::spawn(async move {
            work.await;
            let _ = done.send(());
        });
        let _ = when_done.await;
    }
    scripted
}

async fn work(ticket: Ticket, run: Arc<Run>, service: Duration) {
    ticket.served(|| service.mul_f64(run.service_factor())).await;
}

fn head(response: &Response) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &response.headers {
        headers.append(name, value.clone());
    }
    match &response.retry_after {
        Some(RetryAfter::Verbatim(value)) => {
            headers.append(RETRY_AFTER, value.clone());
        }
        Some(RetryAfter::DateIn(seconds)) => {
            let span = Duration::from_secs_f64(seconds.abs());
            let now = SystemTime::now();
            let date = httpdate::fmt_http_date(if *seconds < 0.0 { now - span } else { now + span });
            headers.append(RETRY_AFTER, HeaderValue::from_str(&date).expect("a date is ASCII"));
        }
        None => {}
    }
    headers
}

async fn finish(
    response: &Response,
    headers: HeaderMap,
    body: Bytes,
    seed: u64,
    pending: Pending,
    exit: &ExitSlot,
) -> Result<Answer, Ended> {
    let status = response.status;
    let Some(fault) = &response.fault else {
        pending.answered(status.as_u16());
        return Ok(answer(response, headers, AnswerBody::Whole(body)));
    };
    let name = fault.name();
    let sent = Some(status.as_u16());
    let (sent, ending) = match fault {
        Fault::SlowBody { chunk_bytes, chunk_every } => {
            pending.faulted(name, sent);
            let slow = SlowBody::new(body, *chunk_bytes, chunk_every.clone(), seed);
            return Ok(answer(response, headers, AnswerBody::Slow(slow)));
        }
        Fault::Hang => {
            pending.hangs(name);
            return std::future::pending().await;
        }
        Fault::Reset => (None, Exit::reset()),
        Fault::Close => (None, Exit::close()),
        Fault::Garbage => (None, Exit::garbage()),
        Fault::ResetAfterHeaders => (sent, Exit::partial(status, &headers, &body, 0, true)),
        Fault::Truncate => (sent, Exit::partial(status, &headers, &body, body.len() / 2, false)),
    };
    pending.faulted(name, sent);
    Err(exit.leave(ending))
}

fn answer(response: &Response, headers: HeaderMap, body: AnswerBody) -> Answer {
    let mut answer = hyper::Response::new(body);
    *answer.status_mut() = response.status;
    *answer.headers_mut() = headers;
    answer
}

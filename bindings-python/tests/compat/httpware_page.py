"""httpware's "Resilience reference" (seed 000), sentence by sentence, through `tidegate.compat.httpware`.

 1  automatic retry of transient failures with full-jitter exponential backoff
 2  RetryBudget: safe to share across sync Client and AsyncClient in the same process
 3  Bulkhead / AsyncBulkhead: concurrency limiter with bounded acquire-wait
 4  AsyncBulkhead outside AsyncRetry so one slot covers all retry attempts of a single call
 5  max_attempts 3: total tries (including the first)
 6  1 disables retries entirely
 7  <1 raises ValueError
 8  base_delay 0.1: floor for the full-jitter exponential backoff
 9  max_delay 5.0: ceiling for backoff
10  retry_status_codes 408, 429, 502, 503, 504
11  retry_methods GET, HEAD, OPTIONS, PUT, DELETE; POST excluded
12  pass an explicit frozenset including "POST" to retry it
13  Retry-After on a retryable status: sleep for the header value instead of the jittered backoff
14  exceeds max_delay: gives up and re-raises the StatusError with a note
15  set max_delay higher (or respect_retry_after=False) to opt out
16  budget: RetryBudget(), default-configured
17  pass a shared RetryBudget to apply one budget across multiple clients
18  httpware does not own a structured-cancellation timeout knob
19  integer seconds
20  HTTP-date: sleep until that absolute time, floored at 0
21  "clamped to max_delay" (differs: 14 holds, since a shorter wait than asked for is none)
22  negative integer values are clamped to 0
23  malformed values are ignored, falling back to the jittered backoff
24  async-iterable body: refuses to retry; the original exception is re-raised with a note
25  the same refusal note at the non-idempotent early-exit sites
26  the event retry.streaming_refused fires only at the retryable-failure-path site
27  on exhaustion re-raises the last exception observed, preserving the original class
28  a note is added: gave up after N attempts
29  the budget refusing: RetryBudgetExhaustedError, with last_response / last_exception / attempts
30  each request deposits a token; each retry attempts to withdraw one
31  bounded by percent_can_retry of recent deposits, plus a min_retries_per_sec * ttl floor
32  ttl 10.0: sliding window over which deposits and withdrawals count
33  min_retries_per_sec 10.0: permitted regardless of deposit rate
34  percent_can_retry 0.2
35  ceiling = int(deposits * percent_can_retry) + int(min_retries_per_sec * ttl)
36  a withdrawal fails when withdrawn >= ceiling
37  without the floor the very first retry would be refused
38  high-traffic clients are dominated by the percent term
39  pass the same RetryBudget instance to multiple AsyncClients: one joint budget covers them all
40  RetryBudget is thread-safe and asyncio-safe
41  acquires a slot before each request, bounded by acquire_timeout
42  success: slot released after the response returns
43  exception: slot released before the exception propagates
44  cancellation: slot released as the CancelledError propagates
45  max_concurrent REQUIRED; <1 raises ValueError
46  acquire_timeout 1.0; None waits forever; 0 fails fast; <0 raises ValueError
47  the slot cannot leak
48  one instance, many clients: combined in-flight is capped
49  BulkheadFullError carries the configured max_concurrent and acquire_timeout
50  the bulkhead.rejected event fires at the same site
51  flipping the order: each retry attempt grabs a fresh slot
52  per-call state outside AsyncRetry: all attempts of one call share one ID
53  the sync flavors mirror the async ones: same parameter set, same defaults
54  Retry uses time.sleep between attempts (differs: it waits in the engine, in the caller's thread)
55  Retry-After, streaming refusal, exhaustion and RetryBudgetExhaustedError are identical to AsyncRetry
56  interrupt-style exceptions release the slot
57  a single Bulkhead cannot enforce a joint cap across sync and async: create both (and `twin()` can)
58  composition with sync Client
59  write your own middleware against the same protocol
60  RetryBudgetExhaustedError, BulkheadFullError are in the exception tree
61  the four operational events
"""

from __future__ import annotations

from compat.pages import page_of

PAGE = page_of(__doc__)

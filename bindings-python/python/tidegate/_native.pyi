"""
Tidegate's core, for the Python half. No part of the public API.
"""

from _typeshed import SupportsGetItem
from typing import Any, Final, SupportsFloat, SupportsIndex, final
from typing_extensions import disjoint_base

__all__ = ["HELD_AT_MOST", "READ_AT_MOST", "READ_FOR", "AdaptiveThrottle", "Aimd", "Backoff", "CircuitBreaker", "CoDel", "CubicRate", "DDSketch", "Document", "EarnedBudget", "Engine", "Events", "Fleet", "Frames", "Gcra", "Gradient2", "Inspector", "MemoryStore", "P2Quantile", "RatioBudget", "RetryBudget", "RetryQuota", "RetryStrategy", "RetryToken", "Runner", "Sender", "ShareBudget", "Ticket", "TokenBucket", "TokenBudget", "UsageReader", "WindowedP2Quantile", "asks_for_stream", "awaitable_type", "bounds", "decorated", "estimate_of", "families", "keys", "left_answers", "monotonic", "native_method", "parse_retry_after", "record_types", "scope", "scope_variable", "timed", "verdicts", "weight_of", "within"]

HELD_AT_MOST: Final[int]
READ_AT_MOST: Final[int]
READ_FOR: Final[int]

@final
class AdaptiveThrottle:
    """
    Refuses a share of the calls to a downstream that does not accept enough of them.
    """
    def __new__(cls, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]], now: SupportsFloat | SupportsIndex, seed: SupportsIndex) -> AdaptiveThrottle: ...
    def accepted(self, /, kind: str) -> bool | None:
        """
        Was a call of one of the nine classes accepted (`docs/spec.md`, 1.2)? `None`: it does not count.
        """
    def accepts(self, /, now: SupportsFloat | SupportsIndex) -> int:
        """
        Those of them that the downstream accepted.
        """
    def admit(self, /, now: SupportsFloat | SupportsIndex, bits: SupportsIndex | None) -> bool:
        """
        May a call go through? One that is refused has been counted; record one that is let through.
        """
    def copy(self, /) -> AdaptiveThrottle:
        """
        Another of the same state.
        """
    def is_fresh(self, /, now: SupportsFloat | SupportsIndex) -> bool:
        """
        Is nothing in the window?
        """
    def probability(self, /, now: SupportsFloat | SupportsIndex) -> float:
        """
        The probability that a call is refused now, 0 to 1.
        """
    def record(self, /, accepted: bool, now: SupportsFloat | SupportsIndex) -> None:
        """
        A call that was let through has ended. Do not record one that says neither yes nor no.
        """
    def requests(self, /, now: SupportsFloat | SupportsIndex) -> int:
        """
        Requests in the window.
        """
    def retune(self, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]], now: SupportsFloat | SupportsIndex) -> None:
        """
        Applies new settings.
        """

@final
class Aimd:
    """
    A concurrency limit that grows while a latency is kept, and shrinks by a factor when it is not.
    """
    def __new__(cls, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]]) -> Aimd: ...
    def copy(self, /) -> Aimd:
        """
        Another of the same state.
        """
    def exact(self, /) -> float:
        """
        The limit with the fraction that it keeps inside.
        """
    def is_fresh(self, /, now: SupportsFloat | SupportsIndex) -> bool:
        """
        Whether it is as new: at its maximum, with no recent cut and no estimate.
        """
    def limit(self, /) -> int:
        """
        Calls that may be in flight.
        """
    def on_failure(self, /, latency: SupportsFloat | SupportsIndex, now: SupportsFloat | SupportsIndex) -> None:
        """
        A call has failed after `latency`. Only a failure slower than the threshold counts, as a breach.
        """
    def on_latency(self, /, latency: SupportsFloat | SupportsIndex, now: SupportsFloat | SupportsIndex) -> None:
        """
        A call has ended well, after `latency`: 0 or more.
        """
    def on_timeout(self, /, now: SupportsFloat | SupportsIndex) -> None:
        """
        A call was stopped by its timeout, which is a breach whatever the quantile is.
        """
    def retune(self, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]]) -> None:
        """
        Applies new settings.
        """

@final
class Backoff:
    """
    The delay before retry n = 1, 2, …: growth, cap, jitter.
    """
    def __new__(cls, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]], seed: SupportsIndex) -> Backoff: ...
    def ceiling(self, /, n: SupportsIndex) -> float:
        """
        How long before retry `n`, 1 to 255, without jitter.
        """
    def copy(self, /) -> Backoff:
        """
        Another of the same state.
        """
    def delay(self, /, n: SupportsIndex, call: SupportsIndex | None) -> float:
        """
        How long to wait before retry `n`, 1 to 255.
        """

@final
class CircuitBreaker:
    """
    Refuses calls to a downstream that fails too often, and lets a few through after a break.
    """
    def __new__(cls, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]], probe_lease: SupportsIndex | None, seed: SupportsIndex) -> CircuitBreaker: ...
    def admit(self, /, now: SupportsFloat | SupportsIndex) -> Ticket | None:
        """
        Lets a call through: a ticket to hand back with what came of it.
        """
    def copy(self, /) -> CircuitBreaker:
        """
        Another of the same state.
        """
    def evidence_of(self, /, kind: str) -> str:
        """
        What an outcome of one of the nine classes says (`docs/spec.md`, 1.2).
        """
    def failures(self, /, now: SupportsFloat | SupportsIndex) -> int:
        """
        Failures in the window; while open, what is left of those that opened it.
        """
    def forget_probes(self, /) -> None:
        """
        Releases the places of all probes: after a fork, they belong to the parent process.
        """
    def is_fresh(self, /, now: SupportsFloat | SupportsIndex) -> bool:
        """
        Whether a new breaker would decide the same from now on.
        """
    def on_body_failure(self, /, ticket: Ticket, now: SupportsFloat | SupportsIndex, bits: SupportsIndex | None) -> "Any":
        """
        The body failed of a call that was recorded as a success at its head.
        """
    def open_until(self, /) -> float | None:
        """
        The end of the break while open, on your clock; else `None`.
        """
    def record(self, /, ticket: Ticket, evidence: str, now: SupportsFloat | SupportsIndex, bits: SupportsIndex | None) -> "Any":
        """
        Takes what came of an admitted call: the transition that it made, or `None`.
        """
    def refuses(self, /, now: SupportsFloat | SupportsIndex) -> float | None:
        """
        How long until another try makes sense if an admission now would be refused, else `None`.
        """
    def reset(self, /) -> None:
        """
        Closed again, with nothing counted. Results of calls admitted before change nothing.
        """
    def retune(self, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]], probe_lease: SupportsIndex | None, now: SupportsFloat | SupportsIndex) -> None:
        """
        Applies new settings.
        """
    def state(self, /) -> str:
        """
        `closed`, `open` or `half_open`.
        """
    def throughput(self, /, now: SupportsFloat | SupportsIndex) -> int:
        """
        Results in the window, failures included.
        """

@final
class CoDel:
    """
    Decides at dequeue whether a waiter is served or shed: controlled delay (`docs/spec.md`, 4.4).
    """
    def __new__(cls, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]], now: SupportsFloat | SupportsIndex) -> CoDel: ...
    def allowance(self, /, now: SupportsFloat | SupportsIndex) -> float:
        """
        How long that a waiter of scale 1 may have waited, under the law of `facebook`.
        """
    def congested(self, /, now: SupportsFloat | SupportsIndex) -> bool:
        """
        Whether the queue has not been empty for a whole interval; then serve the newest waiter first.
        """
    def copy(self, /) -> CoDel:
        """
        Another of the same state.
        """
    def on_empty(self, /, now: SupportsFloat | SupportsIndex) -> None:
        """
        The queue is empty: before a waiter comes, or after the last one has left.
        """
    def retune(self, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]]) -> None:
        """
        Applies new settings.
        """
    def should_shed(self, /, sojourn: SupportsFloat | SupportsIndex, now: SupportsFloat | SupportsIndex, scale: SupportsFloat | SupportsIndex) -> bool:
        """
        Whether to shed this waiter. Ask once for each waiter that is taken out.
        """

@final
class CubicRate:
    """
    A send rate that throttles cut, and that grows back along a cubic curve (the AWS SDKs' adaptive mode).
    """
    def __new__(cls, /, now: SupportsFloat | SupportsIndex) -> CubicRate: ...
    def acquire(self, /, now: SupportsFloat | SupportsIndex) -> float:
        """
        Takes one send: 0, or the time to wait before asking again.
        """
    def copy(self, /) -> CubicRate:
        """
        Another of the same state.
        """
    def on_response(self, /, throttled: bool, now: SupportsFloat | SupportsIndex) -> None:
        """
        Counts an answer: a throttled one cuts the rate, any other lets it grow.
        """
    def rate(self, /) -> float | None:
        """
        Sends per second that are allowed; `None` before the first throttle.
        """

@final
class DDSketch:
    """
    All quantiles within a relative accuracy, and sketches that can be merged (`docs/spec.md`, 9.3).
    """
    def __new__(cls, /, alpha: SupportsFloat | SupportsIndex) -> DDSketch: ...
    def add(self, /, x: SupportsFloat | SupportsIndex) -> None:
        """
        Adds one value. NaN and the infinities are ignored.
        """
    def alpha(self, /) -> float:
        """
        The relative accuracy that is kept: at most what was asked for.
        """
    def clear(self, /) -> None:
        """
        Forgets all values and keeps the accuracy.
        """
    def copy(self, /) -> DDSketch:
        """
        Another of the same state.
        """
    def count(self, /) -> int:
        """
        Number of values.
        """
    def equals(self, /, other: DDSketch) -> bool:
        """
        Are they equal, to the last count?
        """
    @staticmethod
    def from_words(words: SupportsGetItem[int, SupportsIndex]) -> DDSketch:
        """
        The sketch that these words are.
        """
    def gamma(self, /) -> float:
        """
        (1 + alpha)/(1 − alpha): no bin is wider. Sketches of the same gamma can be merged.
        """
    def max(self, /) -> float | None:
        """
        The greatest value, exactly; `None` of an empty sketch.
        """
    def merge(self, /, other: DDSketch) -> None:
        """
        Takes in all that another sketch holds, as if each of its values had been added here.
        """
    def min(self, /) -> float | None:
        """
        The least value, exactly; `None` of an empty sketch.
        """
    def quantile(self, /, q: SupportsFloat | SupportsIndex) -> float | None:
        """
        Estimate of the value of rank ⌊q·(count − 1)⌋, counted from 0: 0 is the least, 1 the greatest.
        """
    def sum(self, /) -> float:
        """
        The sum of the values, in the order in which they came.
        """
    def to_words(self, /) -> "list[int]":
        """
        The sketch as whole numbers of 64 bits: five, and one for each bin that holds values. Exact.
        """

@final
class Document:
    """
    A policy document that has been read and checked.
    """
    def __new__(cls, /, text: str, json: bool) -> Document:
        """
        Reads a document: TOML, or JSON where `json` says so.

        Raises `PolicyError` with every mistake of every policy, each with its line.
        """
    def digest(self, /) -> str:
        """
        A number for what it says, as 16 hexadecimal digits: the same for documents that say the same.
        """
    def names(self, /) -> "list[str]":
        """
        The names of its policies.
        """
    def pairs(self, /, name: str) -> "list[tuple[str, float | str]]":
        """
        The pairs of a policy, its preset spelled out. Raises `KeyError` with the known names.
        """
    def pools(self, /) -> "list[tuple[str, str, list[tuple[str, float | str]]]]":
        """
        Its pools: name, kind, and pairs without the name of their table.
        """
    def reload(self, /, engine: Engine, to: Document) -> "list[int]":
        """
        Takes an engine over from this version of a document to another, as a whole or not at all: the calls to wake.

        Raises `PolicyError` with everything that cannot go over.
        """
    def take(self, /, engine: Engine, name: str) -> int:
        """
        Takes a policy into an engine: its number. Raises `KeyError` with the known names.
        """

@final
class EarnedBudget:
    """
    The default budget of a policy: each call that ends with an answer earns a part of a retry.
    """
    def __new__(cls, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]]) -> EarnedBudget: ...
    def balance(self, /, now: SupportsFloat | SupportsIndex) -> int:
        """
        Whole retries that could be taken now.
        """
    def copy(self, /) -> EarnedBudget:
        """
        Another of the same state.
        """
    def on_answer(self, /, now: SupportsFloat | SupportsIndex) -> None:
        """
        Reports an answer: a success or a permanent error. At most once per call.
        """
    def on_call(self, /, now: SupportsFloat | SupportsIndex) -> None:
        """
        Counts one call, which has started, however many attempts it makes.
        """
    def refund(self, /, now: SupportsFloat | SupportsIndex) -> None:
        """
        Refunds a retry that was withdrawn and never started.
        """
    def try_withdraw(self, /, now: SupportsFloat | SupportsIndex) -> bool:
        """
        Takes one retry, if one is available.
        """

@final
class Engine:
    """
    The engine of the core behind one short lock.

    Without `manual_clock` it reads the system's monotonic clock itself, so that a call costs two crossings.
    """
    version: Final[str]
    """
    The version of the core.
    """
    def __new__(cls, /, seed: SupportsIndex, manual_clock: bool = False, journal: bool = False, max_routes: SupportsIndex = 10000, history: SupportsIndex = 0) -> Engine: ...
    def abandon(self, /, call: SupportsIndex, attempts: SupportsIndex) -> "list[int] | None":
        """
        The caller of a call gave up: it is cancelled, and its last attempt has unwound, and so has the one after, which
        may have been started by a step that an interrupt has lost. The calls that can go on now; None where there is
        nobody to tell anything.
        """
    def after_fork(self, /, seed: SupportsIndex) -> None:
        """
        In the child of a fork: drops the parent's calls and takes a seed of its own.
        """
    def begin(self, /, route: SupportsIndex, flags: SupportsIndex, remaining: SupportsIndex, parent: SupportsIndex, target: SupportsIndex, weights: "dict[str, int] | None" = None) -> "tuple[int, int] | tuple[int, int, list[int]]":
        """
        Begins a call: its id and its first step, and the calls that can go on now where the step says so. `weights` are what
        it will use of each limit that counts a weight.

        Raises `ValueError` for a weight that no limit counts, and for one that is missing.
        """
    def classify(self, /, policy: SupportsIndex, status: SupportsIndex, headers: "list[tuple[bytes, bytes]]", wall_us: SupportsIndex) -> "int":
        """
        The outcome of an HTTP answer, at its place in the word of a Finished event.
        """
    def classify_read(self, /, policy: SupportsIndex, status: SupportsIndex, headers: "list[tuple[bytes, bytes]]", body: bytes, wall_us: SupportsIndex) -> "int":
        """
        The outcome of an HTTP answer of whose body the beginning was read, at its place in the word of a Finished event.
        """
    def falls_back(self, /, policy: SupportsIndex, verdict: SupportsIndex, failure: SupportsIndex | None, judged: bool) -> "bool":
        """
        Does a fallback stand in for this end: a verdict's number, and a failure's kind where there is one, judged by the
        policy's classifier or not?
        """
    def force_open(self, /, policy: SupportsIndex, route: "int | None", on: bool) -> "list[int]":
        """
        Refuses all calls of a policy or of one of its routes, or ends that: the calls to wake.
        """
    def force_target(self, /, group: str, target: str, on: bool) -> None:
        """
        Refuses all attempts at a target of a group, or ends that. Raises `PolicyError` where there is none.
        """
    def kinds(self, /, policy: SupportsIndex) -> "list[tuple[str, str]]":
        """
        The kinds of failure that a policy declares, in the order of their numbers, from 9 on: name and base class.
        """
    def may_do_twice(self, /, policy: SupportsIndex) -> bool:
        """
        May what a call does be done twice under a policy?
        """
    def note_fallback(self, /, route: SupportsIndex, ok: bool) -> None:
        """
        A caller got something in the place of an error of a call on this route, or did not.
        """
    def note_quotas(self, /, call: SupportsIndex, headers: "list[tuple[bytes, bytes]]") -> None:
        """
        Reports the headers of an answer, which may say what is left of a quota.
        """
    def now(self, /) -> int:
        """
        Microseconds on this engine's clock.
        """
    def on(self, /, call: SupportsIndex, event: SupportsIndex) -> "int | tuple[int, list[int]]":
        """
        Tells a call what happened: its next step, paired with the calls that can go on now where the step says so.
        """
    def policy(self, /, name: str, pairs: "list[tuple[str, float | str]]") -> "int":
        """
        Takes a policy in: pairs of dotted keys and numbers or words, spans in microseconds.

        Raises `PolicyError` with every mistake there is.
        """
    def pool(self, /, name: str, kind: str, pairs: "list[tuple[str, float | str]]") -> "None":
        """
        Takes a pool in: a `bulkhead`, a `rate_limit` or a `budget`, its pairs without the name of their table; or a
        group of `targets`, whose pairs begin a target with `member`.

        Raises `PolicyError` with every mistake there is.
        """
    def reads_errors(self, /, policy: SupportsIndex) -> bool:
        """
        Does a host read the beginning of a failed answer's body under a policy?
        """
    def refusal_of(self, /, call: SupportsIndex) -> "tuple[str, str | None, int | None, str] | None":
        """
        The limit of a set that refused a call, the weight that it counts, the call's amount of it, and all this in words; None
        where no set refused it. Ask after the step that ended the call.
        """
    def release(self, /, policy: SupportsIndex, keep: bool) -> None:
        """
        One owner of a policy less; `keep` keeps what it has counted for whoever makes it again.
        """
    def retries_method(self, /, policy: SupportsIndex, method: str) -> bool:
        """
        May a request of this method be repeated without an idempotency key?
        """
    def retune(self, /, policy: SupportsIndex, name: str, pairs: "list[tuple[str, float | str]]") -> "list[int]":
        """
        Gives a policy other settings: the calls that can go on now because of it.

        Raises `PolicyError` with every mistake there is.
        """
    def retune_pool(self, /, name: str, kind: str, pairs: "list[tuple[str, float | str]]") -> "list[int]":
        """
        Gives a pool other settings: the calls that can go on now because of it.

        Raises `PolicyError` with every mistake there is.
        """
    def route(self, /, policy: SupportsIndex, key: str) -> int:
        """
        The route of a key under a policy.
        """
    def set_link(self, /, link: SupportsIndex) -> None:
        """
        Says the state of the device's link: 0 ok, 1 metered, 2 offline.
        """
    def set_now(self, /, us: SupportsIndex) -> None:
        """
        Sets the manual clock, in microseconds.
        """
    def setting(self, /, policy: SupportsIndex, key: str) -> "float | str | None":
        """
        The value of a policy's key that is in force, in its pool where it stands there: a number (spans in
        microseconds), a word, or None.
        """
    def settle(self, /, call: SupportsIndex, attempt: SupportsIndex, name: str, total: SupportsIndex) -> bool:
        """
        Settles the total that an attempt has used of a weight so far. False where the attempt has ended, or counts no such
        weight.
        """
    def snapshot(self, /) -> "dict[str, object]":
        """
        The state of everything, as plain dictionaries and lists.
        """
    def target(self, /, route: SupportsIndex, path: str) -> int:
        """
        The name of a path, for `begin`; 0 where its policy holds nothing.
        """
    def target_of(self, /, call: SupportsIndex) -> "str | None":
        """
        The name of the target that the newest attempt of a call goes to; None for a call without one.
        """
    def time_left(self, /, call: SupportsIndex, whole: bool = False) -> int:
        """
        Microseconds that a call or its newest attempt still has, below 0 without end.
        """

@final
class Events:
    """
    Reads a stream of server-sent events piece by piece.
    """
    def __new__(cls, /) -> Events: ...
    def read(self, /, piece: "bytes") -> "tuple[bool, int]":
        """
        Reads the next piece: whether it counts, and the outcome that its failure means; 0 without a failure.
        """

@final
class Fleet:
    """
    An engine's side of its store.
    """
    def __new__(cls, /, engine: Engine) -> Fleet: ...
    def attach(self, /, kind: str, namespace: str, process: SupportsIndex) -> list[int]:
        """
        Attaches the store: its kind is `lua` or `plain`; keys begin with the namespace; `process` are random bits that name
        this process. The calls that can go on.
        """
    def reaping(self, /, pool: str) -> "list[bytes] | None":
        """
        The command that takes back a pool's slots whose leases are over; None if the pool is not the fleet's.
        """
    def reply(self, /, command: SupportsIndex, answer: "bytes | None", failed: bool = False) -> "list[int] | None":
        """
        What came of a command: the store's answer or, `failed`, the text of its error; None where there was no answer. The
        calls that can go on because of it, and also none of them where there is something to tell or to send.
        """
    def take(self, /) -> "list[tuple[int, list[bytes], int, int]]":
        """
        The commands that steps have made since the last time, oldest first: id, words, the place of the word that a
        cluster routes by, and the microseconds that the answer may take.
        """

@final
class Frames:
    """
    Takes the body of an answer out of the bytes of its connection: it removes the sizes of chunks.
    """
    def __new__(cls, /, chunked: "bool", length: "int | None") -> Frames: ...
    def read(self, /, data: "bytes") -> "tuple[bytes, bool]":
        """
        Reads the next bytes: those of them that are the body's, and whether the body has ended.
        """
    def skim(self, /, data: "bytes") -> "tuple[bool, bool]":
        """
        Reads the next bytes: whether one of them is the body's, and whether the body has ended.
        """

@final
class Gcra:
    """
    The same rate limit kept as one moment: the generic cell rate algorithm (`docs/spec.md`, 3.3).
    """
    def __new__(cls, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]]) -> Gcra: ...
    def acquire(self, /, now: SupportsFloat | SupportsIndex, cost: SupportsIndex) -> float:
        """
        Takes `cost` tokens, or takes none and says when to come back.
        """
    def copy(self, /) -> Gcra:
        """
        Another of the same state.
        """
    def is_fresh(self, /, now: SupportsFloat | SupportsIndex) -> bool:
        """
        Whether it is full, as a new one is.
        """
    def try_take(self, /, now: SupportsFloat | SupportsIndex, cost: SupportsIndex) -> bool:
        """
        Takes `cost` tokens (0 to 2^32 − 1), if there are enough. A cost of 0 is always granted.
        """

@final
class Gradient2:
    """
    A concurrency limit that finds the knee of the latency curve by itself (`docs/spec.md`, 4.3).
    """
    def __new__(cls, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]]) -> Gradient2: ...
    def baseline(self, /) -> float | None:
        """
        The long-term latency in seconds; `None` before the first sample.
        """
    def copy(self, /) -> Gradient2:
        """
        Another of the same state.
        """
    def exact(self, /) -> float:
        """
        The limit with the fraction that it keeps inside.
        """
    def is_fresh(self, /) -> bool:
        """
        Whether it is as new: before its first sample or drop.
        """
    def limit(self, /) -> int:
        """
        Calls that may be in flight.
        """
    def on_drop(self, /, started: SupportsFloat | SupportsIndex, in_flight: SupportsIndex, now: SupportsFloat | SupportsIndex) -> None:
        """
        A call was stopped by its timeout, or throttled by the server. `plain` and `netflix` ignore it.
        """
    def on_latency(self, /, rtt: SupportsFloat | SupportsIndex, started: SupportsFloat | SupportsIndex, in_flight: SupportsIndex, now: SupportsFloat | SupportsIndex) -> None:
        """
        A call has ended well.
        """
    def retune(self, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]]) -> None:
        """
        Applies new settings.
        """

@final
class Inspector:
    """
    What an engine tells, for the Python half.
    """
    def __new__(cls, /, engine: Engine) -> Inspector: ...
    def dropped(self, /) -> int:
        """
        Records that were dropped, because nobody had taken those before them.
        """
    def explain_call(self, /, call: SupportsIndex) -> "dict[str, object] | None":
        """
        How things stand with a call, or why it ended, as plain dictionaries and lists; `text` is for people.
        """
    def explain_policy(self, /, policy: SupportsIndex) -> "dict[str, object] | None":
        """
        What a policy comes to, as plain dictionaries and lists; `text` is for people.
        """
    def journal(self, /, take: bool) -> "list[str]":
        """
        The journal's lines since they were last taken; `take` takes them.
        """
    def label(self, /, policy: str, route: str) -> str:
        """
        What a route is called in labels: its key, or `other`.
        """
    def listen(self, /, types: "list[str]", quiet: "list[str]") -> "None":
        """
        Sets what hooks listen to, and what of it `take_records` may leave out: names of record types.
        """
    def measure(self, /, max_routes: SupportsIndex) -> None:
        """
        Starts to count for metrics, if nobody has: `max_routes` routes of each policy have series of their own.
        """
    def replay(self, /, lines: "list[str]") -> "tuple[list[str], int]":
        """
        Puts a journal's lines in: what the engine said to each, and where its clock stands then, in microseconds. Raises
        `ValueError` for a line that is none.
        """
    def restore(self, /, text: str, elapsed_us: SupportsIndex) -> "tuple[int, int, list[tuple[str, str]], list[tuple[str, str, str]]]":
        """
        Goes on from a saved state: routes, those left out, unknown policies and pools, components that start fresh.
        """
    def save(self, /) -> str:
        """
        What the engine has learned, as text.
        """
    def series(self, /) -> "list[tuple[int, str, str, list[str], float | tuple[list[int], float]]]":
        """
        All series: the family's place in `families`, policy, route, labels, and a number or the counts and the sum.
        """
    def take_records(self, /, hushed: bool) -> "list[tuple[object, ...]]":
        """
        The records that this thread's steps have made since the last time, oldest first; without the quiet ones, `hushed`.
        """
    def test(self, /, active: bool, attempts: SupportsIndex, cap: bool) -> "list[int] | None":
        """
        Tests the engine: it stays out of the way unless `active`; `attempts` makes so many without waits, 0 leaves them as
        they are, and `cap` keeps those that a policy has fewer. The calls that can go on because of it.
        """

@final
class MemoryStore:
    """
    A store in memory, for tests: what Redis would answer to an engine's commands.
    """
    def __new__(cls, /) -> MemoryStore: ...
    def describe(self, /, now_us: SupportsIndex) -> list[str]:
        """
        What is stored at a moment: a line a key.
        """
    def execute(self, /, words: "list[bytes]", now_us: SupportsIndex) -> "tuple[bool, bytes]":
        """
        Carries out one command at a moment, in microseconds: whether it is an answer and no error, and its text.
        """

@final
class P2Quantile:
    """
    One quantile of all values so far, from five markers: the P² algorithm (`docs/spec.md`, 9.1).
    """
    def __new__(cls, /, p: SupportsFloat | SupportsIndex) -> P2Quantile: ...
    def copy(self, /) -> P2Quantile:
        """
        Another of the same state.
        """
    def count(self, /) -> int:
        """
        Number of values.
        """
    def estimate(self, /) -> float | None:
        """
        The estimate; `None` before the first value.
        """
    def observe(self, /, x: SupportsFloat | SupportsIndex) -> None:
        """
        Adds one value. NaN and the infinities are ignored.
        """

@final
class RatioBudget:
    """
    Each call earns a part of a retry, up to max(1, `min_throughput`·`ratio`); no clock.
    """
    def __new__(cls, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]]) -> RatioBudget: ...
    def balance(self, /) -> int:
        """
        Whole retries that could be taken now.
        """
    def copy(self, /) -> RatioBudget:
        """
        Another of the same state.
        """
    def is_free(self, /) -> bool:
        """
        Whether a retry would be free now, because there have been few calls.
        """
    def on_call(self, /) -> None:
        """
        Counts one call, however many attempts it makes.
        """
    def refund(self, /) -> None:
        """
        Refunds a retry that was paid for and never started; not one that was free.
        """
    def try_withdraw(self, /) -> bool:
        """
        Takes one retry, if it is free or one is available.
        """

@final
class RetryBudget:
    """
    A budget over a sliding window: a share of recent calls, plus a floor (Finagle's `RetryBudget`).
    """
    def __new__(cls, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]]) -> RetryBudget: ...
    def balance(self, /, now: SupportsFloat | SupportsIndex) -> int:
        """
        Retries that could be taken now.
        """
    def copy(self, /) -> RetryBudget:
        """
        Another of the same state.
        """
    def deposit(self, /, now: SupportsFloat | SupportsIndex) -> None:
        """
        Counts one call, however many attempts it makes.
        """
    def refund(self, /, withdrawn: SupportsFloat | SupportsIndex, now: SupportsFloat | SupportsIndex) -> None:
        """
        Refunds a retry withdrawn at the moment `withdrawn` that was never started.
        """
    def try_withdraw(self, /, now: SupportsFloat | SupportsIndex) -> bool:
        """
        Takes one retry, if one is available.
        """

@final
class RetryQuota:
    """
    Retries cost, successes refund; no clock (the retry quota of the AWS SDKs' standard mode).
    """
    def __new__(cls, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]]) -> RetryQuota: ...
    def available(self, /) -> int:
        """
        Tokens left.
        """
    def copy(self, /) -> RetryQuota:
        """
        Another of the same state.
        """
    def on_success(self, /, cost: SupportsIndex) -> None:
        """
        Reports a success of a call whose last retry cost `cost`: 0 if it had none.
        """
    def refund(self, /, cost: SupportsIndex) -> None:
        """
        Refunds the charge of a retry that was never started; 0 to 65,535.
        """
    def try_acquire(self, /, kind: str) -> int | None:
        """
        Pays for a retry after a failure of this kind: the cost, or `None` if the tokens are too few.
        """

@final
class RetryStrategy:
    """
    Retry tokens: the standard retry interface of the Smithy SDKs (`docs/spec.md`, 2.18).
    """
    def __new__(cls, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]], backoff: Backoff, quota: RetryQuota | None, retry_unknown: bool, seed: SupportsIndex) -> RetryStrategy: ...
    def acquire_initial_retry_token(self, /, scope: str) -> RetryToken:
        """
        The token of a call's first attempt, without a wait. Each scope has a quota of its own.
        """
    def available(self, /, scope: str) -> int | None:
        """
        Tokens left in a scope's quota; `None` without quotas.
        """
    def copy(self, /) -> RetryStrategy:
        """
        Another of the same state.
        """
    def record_success(self, /, token: RetryToken) -> None:
        """
        A call has succeeded with this token: its scope gets the cost of the last retry back.
        """
    def refresh_retry_token_for_retry(self, /, token: RetryToken, error: bool | None, after: SupportsIndex | None, throttling: bool, timeout: bool) -> RetryToken:
        """
        The token of the next attempt, in exchange for that of the failed one.
        """

@final
class RetryToken:
    """
    A strategy's permission for an attempt.
    """
    def copy(self, /) -> RetryToken:
        """
        Another of the same state.
        """
    def refused(self, /) -> int:
        """
        Why there is no further attempt: 1 attempts, 2 not safe, 3 quota; or 0.
        """
    def retry_count(self, /) -> int:
        """
        Retries so far: 0 for the first attempt.
        """
    def retry_delay(self, /) -> float:
        """
        How long to wait before the attempt. The caller waits.
        """

@disjoint_base
class Runner:
    """
    The native half of a `Caller`.
    """
    def __new__(cls, /, *_args: "object", **_kwargs: "object") -> Runner: ...
    def _is_timed(self, /) -> bool:
        """
        Has the policy an attempt timeout?
        """
    @property
    def _route(self, /) -> int:
        """
        The route of its calls; a number that no route has until the first call.
        """
    def _settle(self, /, native: Engine, owner: "object", policy: SupportsIndex, key: str, flags: SupportsIndex, limit: SupportsIndex, plain: bool, judged: bool, bare: bool, token: SupportsIndex, weights: "dict[str, int] | None" = None) -> None:
        """
        How its calls begin.
        """
    def _start(self, /, until_body: bool = False, blocking: bool = False) -> "Any":
        """
        Begins a call of a loop or a generator, whose attempts cannot run concurrently: the scope around it, its number and its
        first step. With `until_body` it keeps its permit until its generator ends. Returns None, and begins no
        call, if it would block a thread and the policy has an attempt timeout.
        """

@final
class Sender:
    """
    Function of a transport's calls. The native half recognises it and calls the inner transport directly. The arguments of a call
    are the request, the request to send, and the start and the end of its time limit.
    """
    def __call__(self, /, request: "object", sent: "object", began: "int", until: "float | None") -> "Any":
        """
        Sends `sent`, and returns a response or a coroutine. Calls do not use this slot, but refuse functions without it.
        """
    def __new__(cls, /, inner: "object", method: str, whole_body: "type", until: "object", report: "dict[str, object]") -> Sender: ...
    def __repr__(self, /) -> str: ...
    @property
    def whole(self, /) -> bool:
        """
        Whether the newest response had a complete body.
        """

@final
class ShareBudget:
    """
    Retries in flight ≤ max(`min_retries`, `share`·calls in flight); no clock (Envoy's `retry_budget`).
    """
    def __new__(cls, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]]) -> ShareBudget: ...
    def balance(self, /, calls: SupportsIndex) -> int:
        """
        Retries that could be taken now, while `calls` are in flight.
        """
    def copy(self, /) -> ShareBudget:
        """
        Another of the same state.
        """
    def in_flight(self, /) -> int:
        """
        Retries in flight.
        """
    def on_end(self, /) -> None:
        """
        A retry that was taken has ended, or will not start.
        """
    def try_acquire(self, /, calls: SupportsIndex) -> bool:
        """
        Takes one retry, while `calls` are in flight (0 to 2^32 − 1).
        """

@final
class Ticket:
    """
    Proof of an admission, to be handed back with what came of it, once.
    """
    def __eq__(self, value: object, /) -> bool: ...
    def __getnewargs__(self, /) -> "tuple[int, bool]": ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __new__(cls, /, number: SupportsIndex, probe: bool = False) -> Ticket: ...
    def __repr__(self, /) -> str: ...
    @property
    def number(self, /) -> int:
        """
        The generation while closed; the probe while half-open.
        """
    @property
    def probe(self, /) -> bool:
        """
        Was it admitted as a probe?
        """

@final
class TokenBucket:
    """
    A rate and a burst: a bucket that starts full and refills continuously (`docs/spec.md`, 3.1).
    """
    def __new__(cls, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]], now: SupportsFloat | SupportsIndex) -> TokenBucket: ...
    def acquire(self, /, now: SupportsFloat | SupportsIndex, cost: SupportsIndex) -> float:
        """
        Takes `cost` tokens, or takes none and says when to come back.
        """
    def copy(self, /) -> TokenBucket:
        """
        Another of the same state.
        """
    def is_fresh(self, /, now: SupportsFloat | SupportsIndex) -> bool:
        """
        Whether it is full, as a new one is.
        """
    def level(self, /, now: SupportsFloat | SupportsIndex) -> int:
        """
        Whole tokens that are available now.
        """
    def retune(self, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]], now: SupportsFloat | SupportsIndex) -> None:
        """
        Applies new settings.
        """
    def try_take(self, /, now: SupportsFloat | SupportsIndex, cost: SupportsIndex) -> bool:
        """
        Takes `cost` tokens (0 to 2^32 − 1), if there are enough. A cost of 0 is always granted.
        """
    def wait_for(self, /, now: SupportsFloat | SupportsIndex, tokens: SupportsIndex) -> float:
        """
        How long until `tokens` in all (0 to 2^64 − 1) will have flowed in beyond what is used; takes none.
        """

@final
class TokenBudget:
    """
    Failures take a token, successes give a part of one, and half must be left; no clock (gRPC A6).
    """
    def __new__(cls, /, pairs: SupportsGetItem[int, tuple[str, SupportsFloat | SupportsIndex | str]]) -> TokenBudget: ...
    def allows(self, /) -> bool:
        """
        Whether a retry is allowed now.
        """
    def balance(self, /) -> int:
        """
        Failures until retries are refused.
        """
    def copy(self, /) -> TokenBudget:
        """
        Another of the same state.
        """
    def on_failure(self, /) -> None:
        """
        A retryable failure, first attempts included.
        """
    def on_success(self, /) -> None:
        """
        A success.
        """

@final
class UsageReader:
    """
    Reads what an answer of a language model has used, piece by piece.
    """
    def __new__(cls, /) -> UsageReader: ...
    def read(self, /, piece: "bytes") -> "None":
        """
        Reads the next piece.
        """
    def tokens(self, /) -> "tuple[int | None, int | None, int | None]":
        """
        The tokens so far: of the prompt, of its cached part, of the answer; `None` where nothing was said.
        """

@final
class WindowedP2Quantile:
    """
    One quantile of the last ½ to 1 windows, whatever came before (`docs/spec.md`, 9.2).
    """
    def __new__(cls, /, p: SupportsFloat | SupportsIndex, window: SupportsIndex) -> WindowedP2Quantile: ...
    def copy(self, /) -> WindowedP2Quantile:
        """
        Another of the same state.
        """
    def count(self, /) -> int:
        """
        Number of values behind the estimate.
        """
    def estimate(self, /) -> float | None:
        """
        The estimate; `None` before the first value, exact below five.
        """
    def observe(self, /, x: SupportsFloat | SupportsIndex) -> None:
        """
        Adds one value. NaN and the infinities are ignored.
        """
    def reset(self, /) -> None:
        """
        Forgets all values.
        """

def asks_for_stream(path: "bytes", body: "bytes") -> "bool":
    """
    Whether a request to a language model asks for a stream, by its path or its body.
    """

def awaitable_type() -> "type":
    """
    The type of what `acall` returns.
    """

def bounds() -> "list[float]":
    """
    The upper bounds of histograms, in seconds.
    """

def decorated(caller: "Runner", function: "object", is_async: bool) -> "object":
    """
    A plain function, or one that is async, under the policy of a caller.
    """

def estimate_of(path: "bytes", body: "bytes") -> "tuple[int, int | None, bool]":
    """
    What a request to a language model is going to use: tokens of its prompt, the most tokens of its answer (`None` if it
    does not say), and whether it asks for a stream.
    """

def families() -> "list[tuple[str, str, list[str], str]]":
    """
    The families of metrics: name, instrument, labels beside `policy` and `route`, and what it says.
    """

def keys() -> "dict[str, tuple[str, str]]":
    """
    Core's table of keys: what each takes (`span`, `count`, `real`, `flag`, `choice`, `list`, `kinds`, `name`) and its default, as a
    document would write it; empty where there is none.
    """

def left_answers(count: SupportsIndex) -> None:
    """
    Says how many failed answers have a judgement that an inner call has left (`tidegate._call.left`).
    """

def monotonic() -> int:
    """
    Microseconds on the process's monotonic clock, which every engine without a manual clock shares.
    """

def native_method(documented: "object") -> "object":
    """
    The native method that a Python function documents: `call`, or `acall`.
    """

def parse_retry_after(value: bytes, wall_us: SupportsIndex) -> float | None:
    """
    Seconds that a `Retry-After` value asks for, or None; `wall_us` is the Unix time.
    """

def record_types() -> "list[tuple[str, str]]":
    """
    The types of records, in the order of their numbers: name, and what it tells.
    """

def scope() -> "object":
    """
    The scope of the code that runs here, or None.
    """

def scope_variable() -> "object":
    """
    The context variable that the shells keep scopes in.
    """

def timed() -> "list[tuple[str, str | None, bool, int]]":
    """
    Which records feed a histogram: type, what the call waited for if only such records count, whether it takes the wait
    instead of the elapsed time, and the family's place in `families`.
    """

def verdicts() -> "dict[str, str]":
    """
    What each verdict means.
    """

def weight_of(tokens: "tuple[int | None, int | None, int | None]", factors: "tuple[int, int, int]") -> "int | None":
    """
    What tokens count against a limit, with factors in thousandths; `None` without prompt and answer.
    """

def within(scope: Any, function: Any, *args: "object") -> "object":
    """
    Calls a function inside a scope. No interrupt can come between setting and resetting it.
    """

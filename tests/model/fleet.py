"""The fleet's store (spec 10) as it is meant, not as it is written: tokens are fractions.

One function a script. Only `lines` knows how the store shows what it keeps, because the vectors say that too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

SECOND = 1_000_000
MINUTE = 60 * SECOND
MOST = 2**52
EDGE = 8191
BINS = 2048


class Refused(Exception):
    """The store's error; its first word counts."""


@dataclass
class Key:
    """What is kept under a key, and the last millisecond that it is kept in."""

    kind: str
    held: dict[str, int | str] = field(default_factory=dict)
    until: int | None = None


@dataclass
class Store:
    """All keys, and the clock of the command that runs."""

    keys: dict[str, Key] = field(default_factory=dict)
    now: int = 0

    @property
    def ms(self) -> int:
        """The clock as times to live have it."""
        return self.now // 1000

    def find(self, name: str, kind: str) -> Key | None:
        """A key that lives and has the type wanted."""
        key = self.keys.get(name)
        if key and key.until is not None and self.ms > key.until:
            del self.keys[name]
            key = None
        if key and key.kind != kind:
            raise Refused("WRONGTYPE")
        return key

    def make(self, name: str, kind: str) -> Key:
        """The same, made where it is missing."""
        key = self.find(name, kind) or Key(kind)
        self.keys[name] = key
        return key

    def keep(self, name: str, micros: int, more: int = 1000) -> None:
        """A time to live: `micros` rounded up to milliseconds, and `more` of those."""
        if name in self.keys:
            self.keys[name].until = self.ms + -(-micros // 1000) + more

    def members(self, name: str) -> dict[str, int | str]:
        """The members of a sorted set by their scores."""
        key = self.find(name, "zset")
        return key.held if key else {}

    def drop(self, name: str, low: int, high: int) -> int:
        """Members with a score of at most `low` or above `high` go."""
        held = self.members(name)
        gone = [member for member, score in held.items() if int(score) <= low or int(score) > high]
        for member in gone:
            del held[member]
        if not held:
            self.keys.pop(name, None)
        return len(gone)

    def lines(self) -> list[str]:
        """What is there, a line a key in order: name, milliseconds left, kind, contents."""
        found = []
        for name in sorted(self.keys):
            key = self.keys[name]
            if key.until is not None and self.ms > key.until:
                # For good, also where the clock runs back.
                del self.keys[name]
                continue
            ttl = -1 if key.until is None else max(key.until - self.ms, 0)
            held = sorted(key.held.items(), key=lambda item: item[0].encode())
            text = [str(key.held["text"])] if key.kind == "string" else [f"{k}={v}" for k, v in held]
            found.append(" ".join([f"{name} {ttl} {key.kind}", *text]))
        return found


def number(text: int | str | None) -> int | None:
    """Whole numbers up to 2^52, in at most 16 digits; anything else is as if it were not there."""
    text = str(text)
    fine = text.isascii() and text.isdigit() and len(text) <= 16 and int(text) <= MOST
    return int(text) if fine else None


def argument(args: list[str], place: int) -> int:
    """An argument that has to be a number."""
    value = number(args[place]) if place < len(args) else None
    if value is None:
        raise Refused("ERR")
    return value


def rate(store: Store, names: list[str], args: list[str]) -> str:
    """A bucket: full at first and when it was forgotten; refills continuously; holds the burst at most."""
    now = store.now
    asked = [number(word) for word in args[0].split(" ")] if args else []
    if len(asked) != 6 or None in asked:
        raise Refused("ERR")
    permits, per, burst, want, need, back = (int(word or 0) for word in asked)
    permits, per, noted = max(permits, 1), max(per, 1), args[1:2]
    if burst * per > MOST:
        raise Refused("ERR")
    key = store.find(names[0], "string")
    tokens, filled, changed = Fraction(burst), now, False
    words = [number(word) for word in str(key.held["text"]).split(" ")] if key else []
    if len(words) == 4 and None not in words and words[2]:
        level, then, unit, processes = (int(word or 0) for word in words)
        tokens, filled, changed = Fraction(level, unit), then, unit != per
        # As many of the smallest parts as the settings of now have.
        tokens = min(Fraction(math.floor(tokens * per), per), Fraction(burst))
    else:
        processes = len(store.members(names[1]))
    if filled > now + SECOND:
        filled, changed = now, True
    if now > filled:
        tokens = min(tokens + Fraction((now - filled) * permits, per), Fraction(burst))
        filled = now
    tokens = min(tokens + back, Fraction(burst))
    there = math.floor(tokens)
    granted = want if want <= there else there if need <= there else 0
    wait = 0
    if want > there and need > there:
        missing = max(min(need, burst) - tokens, Fraction(0))
        wait = max(math.ceil(missing * per / permits) + filled - now, 1)
    if noted:
        store.make(names[1], "zset").held[noted[0]] = now
        store.drop(names[1], now - 5 * SECOND, now + SECOND)
        store.keep(names[1], 0, 10_000)
        processes = len(store.members(names[1]))
    if noted or back or granted or changed:
        tokens -= granted
        store.keys[names[0]] = Key("string", {"text": f"{int(tokens * per)} {filled} {per} {processes}"})
        store.keep(names[0], math.ceil((burst - tokens) * per / permits) + filled - now)
    return f"{granted} {wait} {processes}"


def breaker(store: Store, names: list[str], args: list[str]) -> str:
    """Closed, open until a moment, then half-open until a probe of this epoch closes it or opens it again."""
    now = store.now
    op, epoch, duration = (argument(args, place) for place in (0, 2, 3))
    quorum, window = max(argument(args, 4), 1), argument(args, 5)
    key = store.find(names[0], "hash")
    held = key.held if key else {}
    votes = len([at for at in store.members(names[1]).values() if now - window < int(at) <= now + SECOND])
    known, until, length = (number(held.get(name)) or 0 for name in "eud")
    opened = number(held.get("s")) == 1
    if opened and until - now > length:
        until = now + length
        held["u"] = until
    state = "closed" if not opened else "open" if now < until else "half-open"
    opens = False
    if op == 1 and state == "closed":
        store.make(names[1], "zset").held[args[1]] = now
        store.drop(names[1], now - window, now + SECOND)
        store.keep(names[1], window)
        votes = len(store.members(names[1]))
        opens = votes >= quorum
    if op == 1 and state == "half-open":
        opens = epoch == known
    if opens:
        state, known, until = "open", max(known + 1, now // 1000), now + duration
        store.keys.pop(names[1], None)
        store.make(names[0], "hash").held.update(e=known, u=until, d=duration, s=1)
        store.keep(names[0], duration + max(10 * duration, MINUTE), 0)
    elif op == 2 and state == "half-open" and epoch == known:
        state = "closed"
        held["s"] = 0
        store.keep(names[0], max(10 * duration, MINUTE), 0)
    remaining = until - now if state == "open" else 0
    return f"{['closed', 'open', 'half-open'].index(state)} {remaining} {known} {votes}"


PATIENCE = 250_000


@dataclass
class Want:
    """A process that wants more slots than it holds."""

    pid: str
    held: int
    wanted: int
    since: int

    @property
    def demand(self) -> int:
        """All the slots it would use."""
        return self.held + self.wanted


def wish(store: Store, pid: str, text: int | str) -> tuple[int, Want] | None:
    """Until when a process wants more slots; nothing where that is over or makes no sense."""
    numbers = [number(word) for word in str(text).split(" ")]
    until = numbers[0] if len(numbers) == 4 and None not in numbers else None
    if until is None or not store.now < until <= store.now + PATIENCE:
        return None
    return until, Want(pid, *(int(word or 0) for word in numbers[1:]))


def wishes(store: Store, name: str) -> dict[str, Want]:
    """Who wants more slots; what does not count any more is forgotten."""
    key = store.find(name, "hash")
    found = {}
    for pid, text in list(key.held.items()) if key else []:
        known = wish(store, pid, text)
        if known:
            found[pid] = known[1]
        else:
            assert key
            del key.held[pid]
    if key and not key.held:
        del store.keys[name]
    return found


def may_keep(me: Want, others: list[Want], limit: int, used: int, now: int) -> int:
    """How many slots a process may keep: the fair level, and in its turn one of those that are left over."""
    parties = [me, *others]
    with_others = max(used - sum(want.held for want in parties), 0)
    pot = max(limit - with_others, 0)
    if not others or sum(want.demand for want in parties) <= pot:
        return limit
    # The highest level at which there is enough: nobody gets more than it wants.
    level = 0
    while sum(min(want.demand, level + 1) for want in parties) <= pot:
        level += 1
    left = pot - sum(min(want.demand, level) for want in parties)

    def rank(want: Want) -> tuple[int, int, str]:
        in_turn = want.held > level and now - want.since < PATIENCE
        return (0 if in_turn else 1 if want.held <= level else 2, want.since, want.pid)

    first = sorted((want for want in parties if want.demand > level or want is me), key=rank)[:left]
    return level + (me in first)


def slots(store: Store, names: list[str], args: list[str]) -> str:
    """Leases with fences that only grow; those that are over are reaped by who acquires, or on request."""
    now = store.now
    op, limit, ttl = (argument(args, place) for place in (0, 2, 3))
    n, mine = min(argument(args, 4), 512), argument(args, 5)
    fences = [argument(args, place) for place in range(6, len(args))]
    if len(fences) > 512 or op > 3:
        raise Refused("ERR")
    store.find(names[0], "zset")
    text = store.find(names[1], "string")
    words = str(text.held["text"]).split(" ") if text else []
    fine = len(words) == 2 and all(word.isascii() and word.isdigit() for word in words)
    last, longest = (number(word) or 0 for word in words) if fine else (0, 0)
    last, longest = last if last <= MOST - 512 else 0, max(longest, ttl)

    def keep() -> None:
        """As long as the longest lease that may be out, whosever it is."""
        store.make(names[1], "string").held["text"] = f"{last} {longest}"
        for name in names[:2]:
            store.keep(name, longest)

    def reap() -> int:
        held = store.members(names[0])
        for slot in held:
            held[slot] = min(int(held[slot]), now + longest)
        return store.drop(names[0], now, 2 * MOST)

    if op == 0:
        pid = args[1]
        wants = wishes(store, names[2])
        reaped = reap()
        used = len(store.members(names[0]))
        own = wants.pop(pid, None)
        me = Want(pid, mine, n, min(own.since, now) if own else now)
        kept = may_keep(me, list(wants.values()), limit, used, now)
        granted = max(min(n, limit - used, kept - mine), 0)
        if granted < n:
            since = now if granted else me.since
            entry = f"{now + PATIENCE} {mine + granted} {n - granted} {since}"
            store.make(names[2], "hash").held[pid] = entry
            store.keep(names[2], 0)
        elif own:
            del store.keys[names[2]].held[pid]
            if not wants:
                del store.keys[names[2]]
        first = max(last + 1, now) if granted else 0
        if granted:
            for fence in range(first, first + granted):
                store.make(names[0], "zset").held[f"{pid}:{fence}"] = now + ttl
            last, longest = first + granted - 1, longest if used else ttl
            keep()
        return f"{granted} {first} {used + granted} {reaped} {kept}"
    mine_named = [f"{args[1]}:{fence}" for fence in fences]
    if op == 1:
        key = store.find(names[2], "hash")
        known = wish(store, args[1], key.held.get(args[1], "")) if key else None
        released = len([slot for slot in mine_named if store.members(names[0]).pop(slot, None) is not None])
        store.drop(names[0], -1, 2 * MOST)
        if known and key and released:
            # Who gives one back has had its turn.
            key.held[args[1]] = f"{known[0]} {mine} {known[1].wanted} {now}"
            store.keep(names[2], 0)
        return f"{released} {len(store.members(names[0]))}"
    if op == 2:
        held = store.members(names[0])
        there = [slot for slot in mine_named if slot in held]
        held.update(dict.fromkeys(there, now + ttl))
        if there:
            keep()
        gone = [str(fence) for fence, slot in zip(fences, mine_named, strict=True) if slot not in held]
        return " ".join([str(len(there)), str(len(held)), *gone])
    return f"{reap()} {len(store.members(names[0]))}"


def place(text: str) -> int | None:
    """The number of a bucket, within the range that is kept."""
    value = number(text.removeprefix("-"))
    return None if value is None else max(-EDGE, min(EDGE, -value if text.startswith("-") else value))


def digest(store: Store, names: list[str], args: list[str]) -> str:
    """The latencies of this slice of time and of the one before, as a list of the buckets they fell into."""
    length, ppm = max(argument(args, 1), 1), min(argument(args, 2), SECOND)
    pairs = list(zip(args[3::2], args[4::2], strict=False))
    if len(args) % 2 == 0 or len(pairs) > 512 or any(place(b) is None or number(c) is None for b, c in pairs):
        raise Refused("ERR")
    slice_ = store.now // length
    this, before = names[slice_ % 2], names[1 - slice_ % 2]
    ours, theirs = store.find(this, "hash"), store.find(before, "hash")
    fresh = not ours or number(ours.held.get("n")) != slice_
    if pairs:
        if fresh:
            store.keys[this] = ours = Key("hash", {"n": slice_})
            fresh = False
        assert ours
        store.keep(this, 2 * length)
        for b, c in pairs:
            name = str(place(b))
            ours.held[name] = int(ours.held.get(name, 0)) + int(c)
    live = [] if fresh or not ours else [ours]
    if theirs and number(theirs.held.get("n")) == slice_ - 1:
        live.append(theirs)
    found: list[tuple[int, int]] = []
    for key in live:
        for name, count in key.held.items():
            bucket = place(name)
            if bucket is not None and number(count):
                found.append((bucket, min(int(count), 2**38)))
    total = sum(count for _, count in found)
    if not total:
        return "0 0"
    lowest = max(bucket for bucket, _ in found) - BINS + 1
    rank = math.floor(Fraction(ppm, SECOND) * (total - 1))
    below = 0
    for bucket, count in sorted(found):
        below += count
        if below > rank:
            return f"{total} {max(bucket, lowest)}"
    raise AssertionError("a rank below the count has a bucket")


def cooldown(store: Store, names: list[str], args: list[str]) -> str:
    """Until when no attempt starts: the latest end that a process has reported."""
    asked = [number(word) for word in args[0].split(" ")] if args else []
    if len(asked) != 2 or None in asked:
        raise Refused("ERR")
    span, row = (int(word or 0) for word in asked)
    key = store.find(names[0], "string")
    words = [number(word) for word in str(key.held["text"]).split(" ")] if key else []
    epoch, until, length, known = (
        [int(word or 0) for word in words] if len(words) == 4 and None not in words else [0] * 4
    )
    end = max(min(until, store.now + length), store.now)
    if end == store.now:
        known = 0
    reported = store.now + span
    if reported > end:
        # No epoch comes again, because it is the clock's unless two closings share a millisecond.
        epoch, end, length, known = max(epoch + 1, store.ms), reported, span, max(row, known)
    elif until <= store.now or end == until:
        return f"{end - store.now} {epoch} {known}"
    store.keys[names[0]] = Key("string", {"text": f"{epoch} {end} {length} {known}"})
    store.keep(names[0], end - store.now)
    return f"{end - store.now} {epoch} {known}"


@dataclass
class Limit:
    """One limit of a command, and its tokens: below 0 in debt."""

    name: str
    permits: int
    per: int
    burst: int
    debt: int
    want: int
    need: int
    back: int
    used: int
    tokens: Fraction = field(default=Fraction(0), init=False)
    filled: int = field(default=0, init=False)

    def text(self) -> str:
        """As it is stored: whole tokens, and the rest in parts of one."""
        whole = math.floor(self.tokens)
        return f"{whole} {self.filled} {int((self.tokens - whole) * self.per)} {self.per}"

    def span(self, tokens: Fraction) -> int:
        """How long these take to flow in."""
        return math.ceil(tokens * self.per / self.permits)

    def recall(self, text: int | str | None, now: int) -> bool:
        """Sets the tokens to what is stored, as of now. Returns whether that has to be written."""
        words = [number(word) for word in str(text).removeprefix("-").split(" ")]
        self.tokens, self.filled = Fraction(self.burst), now
        if len(words) != 4 or None in words or int(words[2] or 0) >= int(words[3] or 0):
            return False
        whole, filled, parts, unit = (int(word or 0) for word in words)
        changed = unit != self.per or filled > now + SECOND
        sign = -1 if str(text).startswith("-") else 1
        # As many of the smallest parts as the settings of now have.
        self.tokens = sign * whole + Fraction(math.floor(Fraction(parts, unit) * self.per), self.per)
        self.filled = now if filled > now + SECOND else max(filled, now)
        self.tokens += Fraction(max(now - filled, 0) * self.permits, self.per)
        return changed


def limit_of(text: str) -> Limit:
    """An argument that is a limit."""
    words = text.split(" ")
    numbers = [number(word) for word in words[1:]]
    named = words[0].isascii() and words[0].replace("_", "a").isalnum()
    if not named or len(numbers) != 8 or None in numbers:
        raise Refused("ERR")
    permits, per, *rest = (int(word or 0) for word in numbers)
    if per > 2**45:
        raise Refused("ERR")
    return Limit(words[0], max(permits, 1), max(per, 1), *rest)


def limits(store: Store, names: list[str], args: list[str]) -> str:
    """Tokens of all limits or of none. What a process has used beyond its tokens counts once."""
    now = store.now
    head = args[0].split(" ") if args else []
    charge = number(head[2]) if len(head) == 3 else None
    if charge is None or not (head[0].isascii() and head[0].isalnum()) or head[1] not in {"0", "1"}:
        raise Refused("ERR")
    asked = [limit_of(text) for text in args[1:]]
    if not 1 <= len(asked) <= 4:
        raise Refused("ERR")
    kept = store.find(names[0], "hash")
    held = dict(kept.held) if kept else {}
    processes = len(store.members(names[1]))
    counted = store.find(names[2], "string") if charge else None
    counts = charge > (number(counted.held["text"]) or 0 if counted else 0)
    writes, wait, late, forgiven = counts or head[1] == "1", 0, 0, []
    for place, it in enumerate(asked):
        writes |= it.recall(held.get(it.name), now) or it.back > 0
        it.tokens = max(min(it.tokens + it.back, Fraction(it.burst)), Fraction(-it.debt))
        below = it.tokens - it.used if counts else it.tokens
        # A part of a token that is forgiven counts as a whole one.
        forgiven.append(math.ceil(max(-it.debt - below, Fraction(0))))
        it.tokens = max(below, Fraction(-it.debt))
        if it.need > max(math.floor(it.tokens), 0):
            missing = min(it.need, it.burst) - it.tokens
            left = max(it.span(missing) + it.filled - now, 1)
            wait, late = (left, place + 1) if left > wait else (wait, late)
    granted = [0 if wait else max(min(it.want, math.floor(it.tokens)), 0) for it in asked]
    if head[1] == "1":
        store.make(names[1], "zset").held[head[0]] = now
        store.drop(names[1], now - 5 * SECOND, now + SECOND)
        store.keep(names[1], 0, 10_000)
        processes = len(store.members(names[1]))
    if writes or any(granted):
        for it, tokens in zip(asked, granted, strict=True):
            it.tokens -= tokens
            store.make(names[0], "hash").held[it.name] = it.text()
        store.keep(names[0], max(it.span(it.burst - it.tokens) + it.filled - now for it in asked))
    if counts:
        store.keys[names[2]] = Key("string", {"text": str(charge)})
        store.keep(names[2], 0, 600_000)
    pairs = " ".join(f"{tokens} {lost}" for tokens, lost in zip(granted, forgiven, strict=True))
    return f"{wait} {late} {processes} {pairs}"


SCRIPTS = {
    "rate": rate,
    "breaker": breaker,
    "slots": slots,
    "digest": digest,
    "cooldown": cooldown,
    "limits": limits,
}

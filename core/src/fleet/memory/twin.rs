//! Our Lua scripts, translated line by line. Integers replace Lua's doubles where those are exact. Elsewhere (after
//! changed settings, and for ranks among many) the same doubles are used.

use super::keys::{Answer, Keys, MOST, Value, error, whole};
use crate::fleet::scripts::MOST_ITEMS;
use std::collections::BTreeMap;
use std::fmt::Write as _;

pub(super) const SECOND: u64 = 1_000_000;

/// A script's arguments after its keys.
pub(super) struct Args<'a>(pub(super) &'a [Vec<u8>]);

impl Args<'_> {
    /// The number at `place`, counted from 1 as in Lua.
    fn number(&self, place: usize) -> Answer<u64> {
        self.0.get(place - 1).and_then(|text| whole(text)).ok_or_else(|| error("an argument is no number"))
    }

    /// The text at `place`.
    pub(super) fn text(&self, place: usize) -> Answer<&[u8]> {
        self.0.get(place - 1).map(Vec::as_slice).ok_or_else(|| error("an argument is missing"))
    }
}

/// `rate.lua`.
pub(super) fn rate(
    keys: &mut Keys,
    [bucket, processes]: [&[u8]; 2],
    args: &Args<'_>,
    now: u64,
) -> Answer<String> {
    let asked = numbers(args.text(1)?).ok_or_else(|| error("argument 1 is not six numbers"))?;
    let [permits, per, burst, want, need, back] = asked;
    let (permits, per, noted) = (permits.max(1), per.max(1), args.text(2).ok());
    let full = burst.checked_mul(per).filter(|full| *full <= MOST);
    let full = full.ok_or_else(|| error("burst times per is above 2^52"))?;
    let held = keys.text(bucket)?.and_then(|text| numbers(text)).filter(|held| held[2] > 0);
    let [level, mut filled, unit, mut count] = match held {
        Some(held) => held,
        None => [full, now, per, keys.members(processes)?],
    };
    let mut writes = noted.is_some() || back > 0 || unit != per;
    let mut level = u128::from(level);
    if unit != per {
        let rest = level % u128::from(unit);
        let scaled = (rest as f64 / unit as f64 * per as f64).floor() as u128;
        level = level / u128::from(unit) * u128::from(per) + scaled;
    }
    let mut level = level.min(u128::from(full)) as u64;
    if filled > now + SECOND {
        (filled, writes) = (now, true);
    }
    if now > filled {
        let came = u128::from(now - filled) * u128::from(permits);
        level = (u128::from(level) + came).min(u128::from(full)) as u64;
        filled = now;
    }
    level = level.saturating_add(back.saturating_mul(per)).min(full);
    let (there, behind) = (level / per, filled - now);
    let (mut granted, mut wait) = (0, 0);
    if want <= there {
        granted = want;
    } else if need <= there {
        granted = there;
    } else {
        wait = ((need.min(burst) * per).saturating_sub(level).div_ceil(permits) + behind).max(1);
    }
    if let Some(process) = noted {
        seen(keys, processes, process, now, 5 * SECOND)?;
        keys.expire(processes, 10_000);
        count = keys.members(processes)?;
    }
    if writes || granted > 0 {
        level -= granted * per;
        let left = ((full - level).div_ceil(permits) + behind).div_ceil(1_000) + 1_000;
        keys.put(bucket, Value::Text(format!("{level} {filled} {per} {count}").into_bytes()), Some(left));
    }
    Ok(format!("{granted} {wait} {count}"))
}

/// `breaker.lua`.
pub(super) fn breaker(
    keys: &mut Keys,
    [at, ballot]: [&[u8]; 2],
    args: &Args<'_>,
    now: u64,
) -> Answer<String> {
    let (op, epoch, duration) = (args.number(1)?, args.number(3)?, args.number(4)?);
    let (quorum, window) = (args.number(5)?.max(1), args.number(6)?);
    let kept = (10 * duration).max(60 * SECOND);
    let held = (keys.whole(at, "e")?, keys.whole(at, "u")?, keys.whole(at, "d")?, keys.whole(at, "s")?);
    let recent = before(now, window) + 1..=(now + SECOND).cast_signed();
    let mut votes = keys
        .sorted(ballot)?
        .map_or(0, |set| set.values().filter(|score| recent.contains(score)).count() as u64);
    let (mut known, mut till) = (held.0.unwrap_or(0), held.1.unwrap_or(0));
    let mut state = u64::from(held.3 == Some(1));
    if state == 1 {
        let length = held.2.unwrap_or(0);
        if till > now + length {
            till = now + length;
            keys.set_field(at, "u", till)?;
        }
        if now >= till {
            state = 2;
        }
    }
    let mut opens = false;
    if op == 1 && state == 0 {
        seen(keys, ballot, args.text(2)?, now, window)?;
        keys.expire(ballot, window.div_ceil(1_000) + 1_000);
        votes = keys.members(ballot)?;
        opens = votes >= quorum;
    } else if op == 1 && state == 2 {
        opens = epoch == known;
    }
    if opens {
        (state, known, till) = (1, (known + 1).max(now / 1_000), now + duration);
        keys.remove(ballot);
        for (field, number) in [("e", known), ("u", till), ("d", duration), ("s", 1)] {
            keys.set_field(at, field, number)?;
        }
        keys.expire(at, (duration + kept).div_ceil(1_000));
    } else if op == 2 && state == 2 && epoch == known {
        state = 0;
        keys.set_field(at, "s", 0)?;
        keys.expire(at, kept.div_ceil(1_000));
    }
    Ok(format!("{state} {} {known} {votes}", if state == 1 { till - now } else { 0 }))
}

/// How long a process that wants more slots counts as waiting, and how long it may keep a slot above the fair level,
/// in µs.
const PATIENCE: u64 = 250_000;

/// A process that wants more slots than it holds.
struct Want<'a> {
    pid: &'a [u8],
    held: u64,
    wish: u64,
    since: u64,
}

impl Want<'_> {
    /// Order in which processes that want more than the fair level get one slot above it.
    fn place(&self, level: u64, now: u64) -> (u8, u64, &[u8]) {
        let class = match self.held > level {
            true if now < self.since.saturating_add(PATIENCE) => 0,
            true => 2,
            false => 1,
        };
        (class, self.since, self.pid)
    }
}

/// How many slots the first of these may keep: the fair level, or one more. `None` if there are enough for all.
fn keep(wants: &[Want<'_>], pot: u64, now: u64) -> Option<u64> {
    let (mut level, mut rest) = (pot / wants.len() as u64, 0);
    for _ in 0..8 {
        let taken: u64 = wants.iter().map(|want| want.wish.min(level)).sum();
        let hungry = wants.iter().filter(|want| want.wish > level).count() as u64;
        rest = pot.saturating_sub(taken);
        if hungry == 0 {
            return None;
        }
        if rest < hungry {
            break;
        }
        level += rest / hungry;
    }
    let own = wants[0].place(level, now);
    let before = wants[1..].iter().filter(|want| want.wish > level && want.place(level, now) < own).count();
    Some(level + u64::from((before as u64) < rest))
}

/// `slots.lua`.
pub(super) fn slots(
    keys: &mut Keys,
    [slots, fence, wants]: [&[u8]; 3],
    args: &Args<'_>,
    now: u64,
) -> Answer<String> {
    let (op, limit, ttl) = (args.number(1)?, args.number(3)?, args.number(4)?);
    let (n, mine) = (args.number(5)?.min(MOST_ITEMS as u64), args.number(6)?);
    if args.0.len() > 6 + MOST_ITEMS {
        return Err(error("more than 512 fences"));
    }
    let fences = (7..=args.0.len()).map(|place| args.number(place)).collect::<Answer<Vec<u64>>>()?;
    keys.members(slots)?;
    let (last, longest) = keys.text(fence)?.and_then(|text| pair(text)).unwrap_or_default();
    let last = last.filter(|last| *last <= MOST - MOST_ITEMS as u64).unwrap_or(0);
    let longest = longest.unwrap_or(0).max(ttl);
    let member = |fence: u64| [args.0[1].as_slice(), b":", fence.to_string().as_bytes()].concat();
    let remember = |keys: &mut Keys, last: u64, longest: u64| {
        let left = longest.div_ceil(1_000) + 1_000;
        keys.expire(slots, left);
        keys.put(fence, Value::Text(format!("{last} {longest}").into_bytes()), Some(left));
    };
    let (until, latest) = ((now + ttl).cast_signed(), (now + longest).cast_signed());
    match op {
        0 => {
            let pid = args.text(2)?;
            let others = take_wants(keys, wants, now)?;
            let reaped = reap(keys, slots, now, latest)?;
            let used = keys.members(slots)?;
            let (own, mut others): (Vec<_>, Vec<_>) = others.iter().partition(|it| it.0 == pid);
            others.truncate(MOST_ITEMS - 1);
            let since = own.first().map_or(now, |it| it.1[3].min(now));
            let theirs: u64 = others.iter().map(|it| it.1[1]).sum();
            let mut all = vec![Want { pid, held: mine, wish: mine + n, since }];
            all.extend(others.iter().map(|(pid, it)| Want {
                pid,
                held: it[1],
                wish: it[1] + it[2],
                since: it[3],
            }));
            let pot = limit.saturating_sub(used.saturating_sub(mine).saturating_sub(theirs));
            let keep = if others.is_empty() { None } else { keep(&all, pot, now) };
            let keep = keep.unwrap_or(limit);
            let (granted, mut first) = (n.min(limit.saturating_sub(used)).min(keep.saturating_sub(mine)), 0);
            if granted < n {
                let since = if granted > 0 { now } else { since };
                note(keys, wants, pid, [now + PATIENCE, mine + granted, n - granted, since])?;
            } else if !own.is_empty() {
                drop_field(keys, wants, pid)?;
            }
            if granted > 0 {
                first = (last + 1).max(now);
                let set = keys.make_sorted(slots)?;
                set.extend((first..first + granted).map(|fence| (member(fence), until)));
                remember(keys, first + granted - 1, if used == 0 { ttl } else { longest });
            }
            Ok(format!("{granted} {first} {} {reaped} {keep}", used + granted))
        }
        1 => {
            let pid = args.text(2)?;
            let want = keys.field(wants, pid)?.and_then(|text| want(&text, now));
            let mut released = 0;
            for fence in fences {
                released +=
                    u64::from(keys.sorted(slots)?.is_some_and(|set| set.remove(&member(fence)).is_some()));
            }
            keys.drop_members(slots, |_| false)?;
            if let Some([until, _, wanted, _]) = want.filter(|_| released > 0) {
                note(keys, wants, pid, [until, mine, wanted, now])?;
            }
            Ok(format!("{released} {}", keys.members(slots)?))
        }
        2 => {
            let (mut renewed, mut gone) = (0, String::new());
            for fence in fences {
                match keys.sorted(slots)?.and_then(|set| set.get_mut(&member(fence))) {
                    Some(score) => {
                        *score = until;
                        renewed += 1;
                    }
                    None => {
                        let _ = write!(gone, " {fence}");
                    }
                }
            }
            if renewed > 0 {
                remember(keys, last, longest);
            }
            Ok(format!("{renewed} {}{gone}", keys.members(slots)?))
        }
        3 => {
            let reaped = reap(keys, slots, now, latest)?;
            Ok(format!("{reaped} {}", keys.members(slots)?))
        }
        _ => Err(error("op is none of 0 to 3")),
    }
}

/// The processes that want more slots, each with four numbers. Removes expired entries.
fn take_wants(keys: &mut Keys, wants: &[u8], now: u64) -> Answer<Vec<(Vec<u8>, [u64; 4])>> {
    let mut found = Vec::new();
    let mut stale = Vec::new();
    for (pid, text) in keys.hash(wants)?.into_iter().flatten() {
        match want(text, now) {
            Some(numbers) => found.push((pid.clone(), numbers)),
            None => stale.push(pid.clone()),
        }
    }
    for pid in stale {
        drop_field(keys, wants, &pid)?;
    }
    Ok(found)
}

/// Parses the entry of a process; `None` if it has expired.
fn want(text: &[u8], now: u64) -> Option<[u64; 4]> {
    numbers(text).filter(|it| it[0] > now && it[0] <= now + PATIENCE)
}

fn note(keys: &mut Keys, wants: &[u8], pid: &[u8], numbers: [u64; 4]) -> Answer<()> {
    let text = numbers.map(|number| number.to_string()).join(" ");
    keys.make_hash(wants)?.insert(pid.to_vec(), text.into_bytes());
    keys.expire(wants, 1_000);
    Ok(())
}

/// Removes a field of a hash. An empty hash is removed with its key.
fn drop_field(keys: &mut Keys, key: &[u8], field: &[u8]) -> Answer<()> {
    let Some(hash) = keys.hash(key)? else { return Ok(()) };
    hash.remove(field);
    if hash.is_empty() {
        keys.remove(key);
    }
    Ok(())
}

/// `digest.lua`.
pub(super) fn digest(keys: &mut Keys, slices: [&[u8]; 2], args: &Args<'_>, now: u64) -> Answer<String> {
    let (length, ppm) = (args.number(2)?.max(1), args.number(3)?.min(1_000_000));
    if args.0.len().is_multiple_of(2) || args.0.len() > 3 + 2 * MOST_ITEMS {
        return Err(error("not 0 to 512 pairs of a bucket and a count"));
    }
    let no_number = || error("a bucket or a count is no number");
    let pairs = args.0[3..].chunks(2).map(|pair| bucket(&pair[0]).zip(whole(&pair[1])).ok_or_else(no_number));
    let pairs = pairs.collect::<Answer<Vec<(i64, u64)>>>()?;
    let slice = now / length;
    let (this, before) = (slices[(slice % 2) as usize], slices[(1 - slice % 2) as usize]);
    let mut fresh = keys.whole(this, "n")? != Some(slice);
    let older = slice > 0 && keys.whole(before, "n")? == Some(slice - 1);
    // Also with the clock at 0: a key of another type must be detected before anything is written.
    keys.hash(before)?;
    if !pairs.is_empty() {
        if fresh {
            keys.remove(this);
            keys.set_field(this, "n", slice)?;
        }
        keys.expire(this, length.div_ceil(500) + 1_000);
        for (number, count) in pairs {
            let field = number.to_string().into_bytes();
            let held = keys.field(this, &field)?;
            let held = held
                .map_or(Ok(0), |text| integer(&text))
                .map_err(|_| error("hash value is not an integer"))?;
            let sum = held.checked_add(count.cast_signed());
            let sum = sum.ok_or_else(|| error("increment or decrement would overflow"))?;
            keys.make_hash(this)?.insert(field, sum.to_string().into());
        }
        fresh = false;
    }
    let (mut counts, mut total) = (BTreeMap::<i64, f64>::new(), 0.0);
    for (key, counted) in [(this, !fresh), (before, older)] {
        let Some(hash) = keys.hash(key)?.filter(|_| counted) else { continue };
        for (field, count) in hash.iter() {
            if let Some((number, count)) = bucket(field).zip(whole(count).filter(|count| *count > 0)) {
                let count = count.min(1 << 38) as f64;
                *counts.entry(number).or_default() += count;
                total += count;
            }
        }
    }
    let Some((top, _)) = counts.last_key_value() else { return Ok("0 0".into()) };
    let lowest = top - 2_047;
    let rank = (ppm as f64 * (total - 1.0) / 1e6).floor();
    let mut below = 0.0;
    let holds = |(_, count): &(&i64, &f64)| {
        below += **count;
        below > rank
    };
    let found = counts.iter().find(holds).map_or(*top, |(number, _)| *number);
    Ok(format!("{total:.0} {}", found.max(lowest)))
}

/// `cooldown.lua`.
pub(super) fn cooldown(keys: &mut Keys, closing: &[u8], args: &Args<'_>, now: u64) -> Answer<String> {
    let asked = args.text(1).ok().and_then(numbers);
    let [span, row] = asked.ok_or_else(|| error("argument 1 is not two numbers"))?;
    let held = keys.text(closing)?.and_then(|text| numbers(text));
    let [mut epoch, until, mut length, mut known] = held.unwrap_or_default();
    let (mut left, mut writes) = (until.saturating_sub(now), false);
    if left > length {
        (left, writes) = (length, true);
    }
    if left == 0 {
        known = 0;
    }
    if span > left {
        epoch = (epoch + 1).max(now / 1_000);
        (left, length, known, writes) = (span, span, row.max(known), true);
    }
    if writes {
        let text = format!("{epoch} {} {length} {known}", now + left);
        keys.put(closing, Value::Text(text.into_bytes()), Some(left.div_ceil(1_000) + 1_000));
    }
    Ok(format!("{left} {epoch} {known}"))
}

/// Notes that a process was seen now. Drops processes last seen `span` ago or longer, and entries of a clock that has
/// run back.
pub(super) fn seen(keys: &mut Keys, key: &[u8], pid: &[u8], now: u64, span: u64) -> Answer<()> {
    keys.make_sorted(key)?.insert(pid.to_vec(), now.cast_signed());
    keys.drop_members(key, |score| score <= before(now, span) || score > (now + SECOND).cast_signed())?;
    Ok(())
}

fn reap(keys: &mut Keys, slots: &[u8], now: u64, until: i64) -> Answer<u64> {
    if let Some(set) = keys.sorted(slots)? {
        let mut late: Vec<_> = set.iter_mut().filter(|(_, score)| **score > until).collect();
        late.sort_by_key(|(_, score)| **score);
        late.into_iter().take(MOST_ITEMS).for_each(|(_, score)| *score = until);
    }
    keys.drop_members(slots, |score| score <= now.cast_signed())
}

/// Parses `N` numbers separated by single blanks.
pub(super) fn numbers<const N: usize>(text: &[u8]) -> Option<[u64; N]> {
    let numbers: Option<Vec<u64>> = text.split(|byte| *byte == b' ').map(whole).collect();
    numbers.and_then(|it| it.try_into().ok())
}

/// Parses two decimal texts separated by a blank; a number that is too large becomes `None`.
fn pair(text: &[u8]) -> Option<(Option<u64>, Option<u64>)> {
    let (left, right) = text.split_at(text.iter().position(|byte| *byte == b' ')?);
    let right = &right[1..];
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    (digits(left) && digits(right)).then(|| (whole(left), whole(right)))
}

fn before(now: u64, span: u64) -> i64 {
    now.cast_signed() - span.cast_signed()
}

fn bucket(text: &[u8]) -> Option<i64> {
    let n = whole(text.strip_prefix(b"-").unwrap_or(text))?.cast_signed();
    let n = if text[0] == b'-' { -n } else { n };
    Some(n.clamp(-8_191, 8_191))
}

/// A 64-bit integer as Redis reads it: no sign except a minus, no leading zero.
pub(super) fn integer(text: &[u8]) -> Answer<i64> {
    let n: Option<i64> = core::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    let n = n.filter(|n| n.to_string().as_bytes() == text);
    n.ok_or_else(|| error("value is not an integer or out of range"))
}

//! The script of sets of limits, translated line by line as in `twin.rs`.

use super::keys::{Answer, Keys, MOST, Value, error, whole};
use super::twin::{Args, SECOND, numbers, seen};
use std::fmt::Write as _;

/// The largest `per`: a year has fewer microseconds.
const LONGEST: u64 = 1 << 45;

/// One limit of a command.
struct Asked<'a> {
    name: &'a [u8],
    permits: u64,
    per: u64,
    burst: i64,
    debt: i64,
    want: i64,
    need: i64,
    back: i64,
    used: i64,
}

/// What is stored of a limit.
struct Held {
    level: i64,
    filled: u64,
    parts: u64,
}

fn asked(text: &[u8]) -> Option<Asked<'_>> {
    let at = text.iter().position(|byte| *byte == b' ')?;
    let (name, rest) = text.split_at(at);
    let named = !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let [permits, per, burst, debt, want, need, back, used] = numbers(&rest[1..]).filter(|_| named)?;
    let signed = u64::cast_signed;
    let (permits, per) = (permits.max(1), per.max(1));
    let (burst, debt, want) = (signed(burst), signed(debt), signed(want));
    Some(Asked {
        name,
        permits,
        per,
        burst,
        debt,
        want,
        need: signed(need),
        back: signed(back),
        used: signed(used),
    })
}

/// Reads a limit; `None` for contents that no script of ours has written. The unit comes last.
fn held(text: &[u8]) -> Option<(Held, u64)> {
    let (negative, text) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
    let [level, filled, parts, unit] = numbers(text)?;
    let level = if negative { -level.cast_signed() } else { level.cast_signed() };
    (parts < unit).then_some((Held { level, filled, parts }, unit))
}

/// `limits.lua`.
pub(super) fn limits(
    keys: &mut Keys,
    [set, processes, charges]: [&[u8]; 3],
    args: &Args<'_>,
    now: u64,
) -> Answer<String> {
    let no_head = || error("argument 1 is not a process, a flag and a number");
    let head: Vec<&[u8]> = args.text(1)?.split(|byte| *byte == b' ').collect();
    let [pid, flag, number] = head[..] else { return Err(no_head()) };
    let fits = !pid.is_empty() && pid.iter().all(u8::is_ascii_alphanumeric) && matches!(flag, b"0" | b"1");
    let charge = whole(number).filter(|_| fits).ok_or_else(no_head)?;
    let noted = flag == b"1";
    let list: Option<Vec<Asked<'_>>> = args.0[1..].iter().map(|text| asked(text)).collect();
    let list = list.filter(|list| (1..=4).contains(&list.len()) && list.iter().all(|it| it.per <= LONGEST));
    let list = list.ok_or_else(|| error("not one to four limits"))?;
    let stored = list.iter().map(|it| keys.field(set, it.name)).collect::<Answer<Vec<_>>>()?;
    keys.hash(set)?;
    let mut count = keys.members(processes)?;
    let last = if charge > 0 { keys.text(charges)?.and_then(|text| whole(text)).unwrap_or(0) } else { 0 };
    let charged = charge > last;
    let (mut wait, mut late, mut writes) = (0, 0, noted || charged);
    let mut states = Vec::new();
    for (place, (it, text)) in list.iter().zip(stored).enumerate() {
        let full = Held { level: it.burst, filled: now, parts: 0 };
        let (mut state, unit) = text.and_then(|text| held(&text)).unwrap_or((full, it.per));
        if unit != it.per {
            let scaled = (state.parts as f64 / unit as f64 * it.per as f64).floor() as u64;
            (state.parts, writes) = (scaled.min(it.per - 1), true);
        }
        if state.filled > now + SECOND {
            (state.filled, writes) = (now, true);
        }
        if now > state.filled {
            let came = u128::from(now - state.filled) * u128::from(it.permits) + u128::from(state.parts);
            let per = u128::from(it.per);
            state.level =
                i64::try_from(came / per).unwrap_or(i64::MAX / 2).saturating_add(state.level).min(it.burst);
            (state.parts, state.filled) = ((came % per) as u64, now);
        }
        if it.back > 0 {
            (state.level, writes) = (state.level + it.back, true);
        }
        if state.level >= it.burst {
            (state.level, state.parts) = (it.burst, 0);
        }
        let mut forgiven = 0;
        if state.level < -it.debt {
            (state.level, state.parts) = (-it.debt, 0);
        }
        if charged {
            state.level -= it.used;
            if state.level < -it.debt {
                (forgiven, state.level, state.parts) = (-it.debt - state.level, -it.debt, 0);
            }
        }
        if it.need > state.level && it.need > 0 {
            let missing = (it.need.min(it.burst) - state.level) as f64 * it.per as f64 - state.parts as f64;
            let left = (missing / it.permits as f64).ceil() + (state.filled - now) as f64;
            let left = left.clamp(1.0, MOST as f64) as u64;
            if left > wait {
                (wait, late) = (left, place + 1);
            }
        }
        states.push((state, forgiven));
    }
    let (mut reply, mut life) = (String::new(), 0.0_f64);
    for (it, (state, forgiven)) in list.iter().zip(&mut states) {
        let granted = if wait == 0 { it.want.min(state.level).max(0) } else { 0 };
        state.level -= granted;
        writes |= granted > 0;
        let _ = write!(reply, " {granted} {forgiven}");
        let missing = (it.burst - state.level) as f64 * it.per as f64 - state.parts as f64;
        life = life.max((missing / it.permits as f64).ceil() + (state.filled - now) as f64);
    }
    if noted {
        seen(keys, processes, pid, now, 5 * SECOND)?;
        keys.expire(processes, 10_000);
        count = keys.members(processes)?;
    }
    if writes {
        for (it, (state, _)) in list.iter().zip(&states) {
            let text = format!("{} {} {} {}", state.level, state.filled, state.parts, it.per);
            keys.make_hash(set)?.insert(it.name.to_vec(), text.into_bytes());
        }
        keys.expire(set, (life / 1_000.0).ceil().min((1_u64 << 43) as f64) as u64 + 1_000);
    }
    if charged {
        keys.put(charges, Value::Text(charge.to_string().into_bytes()), Some(600_000));
    }
    Ok(format!("{wait} {late} {count}{reply}"))
}

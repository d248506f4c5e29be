"""Reading Retry-After and its relatives (spec 2.8, ADR 0006)."""

from __future__ import annotations

import datetime
import re

SATURATED = (1 << 53) - 1
LONGEST = 64
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
FIRST_EPOCH = 1_704_067_200

CLOCK = r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)"
MONTH = r"(?P<mon>[A-Z][a-z]{2})"
FORMS = [
    re.compile(rf"(?P<day>[A-Z][a-z]{{2}}), (?P<d>\d\d) {MONTH} (?P<y>\d{{4}}) {CLOCK} GMT", re.ASCII),
    re.compile(rf"(?P<day>[A-Z][a-z]+), (?P<d>\d\d)-{MONTH}-(?P<y>\d\d) {CLOCK} GMT", re.ASCII),
    re.compile(rf"(?P<day>[A-Z][a-z]{{2}}) {MONTH} (?P<d>[ \d]\d) {CLOCK} (?P<y>\d{{4}})", re.ASCII),
]


def date(text: str) -> int | None:
    """Seconds since the epoch of an HTTP-date in any of its three forms (RFC 9110 5.6.7), else None."""
    for number, form in enumerate(FORMS):
        found = form.fullmatch(text)
        if not found:
            continue
        year = int(found["y"])
        if number == 1:  # two digits: as `httpdate` has it, 70 to 99 are of the last century
            year += 1900 if year >= 70 else 2000
        if found["mon"] not in MONTHS or not 1970 <= year <= 9999:
            return None
        hour, minute, second = int(found["h"]), int(found["m"]), int(found["s"])
        try:
            month, day = MONTHS.index(found["mon"]) + 1, int(found["d"])
            moment = datetime.datetime(year, month, day, hour, minute, second, tzinfo=datetime.timezone.utc)
        except ValueError:
            return None
        name = DAYS[moment.weekday()]
        if found["day"] != (name if number == 1 else name[:3]):
            return None
        return round(moment.timestamp())
    return None


def integer(text: bytes) -> int | None:
    """Optional blanks around digits with or without a minus; negative is 0. None for anything else."""
    found = re.fullmatch(rb"[ \t]*(-?)([0-9]+)[ \t]*", text)
    if not found:
        return None
    return 0 if found[1] else int(found[2])


def scaled(text: bytes, unit: int) -> int | None:
    """An integer in units of so many µs, saturating; longer than 64 bytes digits alone saturate."""
    text = text.strip(b" \t")
    if len(text) > LONGEST:
        return SATURATED if re.fullmatch(rb"[0-9]+", text) else None
    value = integer(text)
    return None if value is None else min(value * unit, SATURATED)


def retry_after(value: bytes, wall: int) -> int | None:
    """2.8: the wait in µs that a Retry-After says at wall-clock time `wall` (µs); None where it says none."""
    seconds = scaled(value, 1_000_000)
    value = value.strip(b" \t")
    if seconds is not None or len(value) > LONGEST:
        return seconds
    try:
        moment = date(value.decode("ascii"))
    except UnicodeDecodeError:
        return None
    return None if moment is None else min(max(0, moment * 1_000_000 - wall), SATURATED)

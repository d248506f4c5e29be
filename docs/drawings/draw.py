"""Draws the pictures of `docs/architecture.md` and `docs/explanation` as SVG files beside this one. It needs nothing but Python.

    python docs/drawings/draw.py            writes the files
    python docs/drawings/draw.py --check    fails if a file differs from what this script draws

Each drawing is 720 pixels wide and follows the reader's light or dark theme. Sizes and positions are pixels.
"""

# ruff: noqa: E501 — a line of text in a drawing is one line here

from __future__ import annotations

import pathlib
import sys
from html import escape

import charts

HERE = pathlib.Path(__file__).parent
WIDTH = 720

# Light first, then dark. `soft` fills boxes, `warm` and `cool` mark what a drawing is about.
COLOURS = {
    "paper": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "grey": ("#59636e", "#9aa4af"),
    "soft": ("#f3f5f8", "#1b222c"),
    "cool": ("#dbeafe", "#16324f"),
    "warm": ("#ffe8cc", "#4a3113"),
    "good": ("#d9f2e0", "#123d22"),
    "bad": ("#ffdfdf", "#4f1d1f"),
}


def style() -> str:
    """The rules for one theme, then for the other."""

    def rules(theme: int) -> str:
        colour = {name: pair[theme] for name, pair in COLOURS.items()}
        fills = "".join(f".{name}{{fill:{colour[name]}}}" for name in COLOURS)
        return (
            f"{fills}rect.box,rect.bar{{stroke:{colour['grey']}}}"
            f"path.line{{stroke:{colour['ink']};fill:none}}path.thin{{stroke:{colour['grey']};fill:none}}"
        )

    return (
        "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:13px}"
        "text.big{font-size:15px;font-weight:600}text.bold{font-weight:600}text.small{font-size:12px}"
        "text.code{font-family:ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:12px}"
        "path.line{stroke-width:1.5}path.thin{stroke-width:1}path.dash{stroke-dasharray:4 4}path.line.good-line{stroke:#1a9e58;stroke-width:2.5}"
        f"{rules(0)}@media (prefers-color-scheme:dark){{{rules(1)}}}"
    )


class Drawing:
    """A picture: things are drawn in the order in which they are added."""

    def __init__(self, height: int, title: str) -> None:
        self.parts: list[str] = []
        self.height, self.title = height, title

    def text(self, x: int, y: int, words: str, kind: str = "ink", anchor: str = "start") -> None:
        """One line of text; `y` is its baseline."""
        at = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.parts.append(f'<text x="{x}" y="{y}" class="{kind}"{at}>{escape(words, quote=False)}</text>')

    def lines(self, x: int, y: int, *lines: str, kind: str = "grey small", anchor: str = "start") -> None:
        """Lines of text, 16 pixels apart."""
        for number, words in enumerate(lines):
            self.text(x, y + 16 * number, words, kind, anchor)

    def box(self, x: int, y: int, width: int, height: int, fill: str, *lines: str) -> None:
        """A box with its text in the middle; the first line is bold."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" class="box {fill}"/>'
        )
        top = y + height // 2 + 5 - 8 * (len(lines) - 1)
        for number, words in enumerate(lines):
            kind = "ink bold" if number == 0 else "grey small"
            self.text(x + width // 2, top + 16 * number, words, kind, "middle")

    def bar(self, x: int, y: int, width: int, fill: str, words: str) -> None:
        """A span of time."""
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="22" rx="3" class="bar {fill}"/>')
        self.text(x + 8, y + 15, words, "ink small")

    def line(self, path: str, kind: str = "line", ends: bool = True) -> None:
        """A line along an SVG path, with an arrow at its end."""
        arrow = ' marker-end="url(#arrow)"' if ends else ""
        self.parts.append(f'<path d="{path}" class="{kind}"{arrow}/>')

    def svg(self) -> str:
        """The file."""
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" '
                f'height="{self.height}" role="img">',
                f"<title>{escape(self.title, quote=False)}</title>",
                f"<style>{style()}</style>",
                '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
                'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" class="ink"/></marker></defs>',
                f'<rect width="{WIDTH}" height="{self.height}" class="paper"/>',
                *self.parts,
                "</svg>\n",
            ]
        )


def stages() -> Drawing:
    """The order of stages, from the call's begin to its end."""
    it = Drawing(640, "The stages of a call in their order, and the way back for a retry")
    left, width, height, pitch = 150, 190, 40, 56
    rows = [
        ("good", "begin", "", ""),
        ("soft", "first checks", "never wait", "forced_open, deadline_before, cost_above_burst"),
        ("soft", "early look at breaker", "never waits, uses up no token and no permit", "breaker_open"),
        ("soft", "hold", "waits while a similar path is being throttled", "hold_full"),
        ("soft", "rate limit", "waits for tokens if wait = true", "rate_limited"),
        (
            "soft",
            "bulkhead",
            "waits for a permit, in a queue",
            "queue_full, acquire_timeout, queue_shed, displaced",
        ),
        ("soft", "breaker or throttle", "never waits", "breaker_open, throttled"),
        ("soft", "send rate", "waits for tokens", "rate_limited"),
        ("cool", "attempt", "", ""),
        ("warm", "retry decision", "", ""),
        ("good", "Done", "", ""),
    ]
    right = left + width + 26
    it.text(left + width // 2, 22, "stage", "ink bold", "middle")
    it.text(right, 22, "does a call wait here? verdicts of a refusal", "ink bold")
    tops = [34 + pitch * number for number in range(len(rows))]
    for (fill, name, waits, refuses), top in zip(rows, tops, strict=True):
        it.box(left, top, width, height, fill, name)
        if waits:
            it.text(right, top + 17, waits, "ink small")
            it.text(right, top + 34, refuses, "grey small")
        if top != tops[-1]:
            it.line(f"M{left + width // 2} {top + height}V{top + pitch - 1}")
    it.lines(
        right,
        tops[8] + 17,
        "runs until its answer, attempt timeout or deadline;",
        "a hedge may run beside it",
    )
    it.lines(
        right,
        tops[9] + 9,
        "class, method and body, attempts, Retry-After,",
        "deadline, budget: the first “no” ends the call",
        "with the failure of the attempt",
    )
    it.text(right, tops[10] + 25, "exactly one for each begin", "grey small")
    it.line(f"M{left} {tops[9] + height // 2}H30V{tops[2] + height // 2}H{left - 1}")
    it.text(44, tops[5] - 30, "retry", "ink bold")
    it.lines(
        44,
        tops[5] - 12,
        "After the",
        "backoff only",
        "the stages with",
        "unit = attempt",
        "and the send",
        "rate are asked",
        "again.",
    )
    return it


def breaker() -> Drawing:
    """The states of a circuit breaker."""
    it = Drawing(330, "The three states of a circuit breaker and what moves it between them")
    it.box(20, 110, 160, 96, "good", "closed", "calls pass", "results are counted", "in a sliding window")
    it.box(
        540, 110, 160, 96, "bad", "open", "calls are refused", "(breaker_open) until", "the break has ended"
    )
    it.box(280, 196, 160, 96, "warm", "half-open", "a few probes pass,", "other calls are", "refused")
    it.line("M100 110V60H620V109")
    it.text(
        360, 28, "a failure, and either failure_ratio is reached at min_throughput,", "ink small", "middle"
    )
    it.text(360, 48, "or it is the consecutive-th failure in a row", "ink small", "middle")
    it.text(360, 82, "the break begins: break_duration plus up to a tenth", "grey small", "middle")
    it.line("M540 180H400V195")
    it.lines(396, 150, "the first call after", "the break", kind="ink small")
    it.line("M440 268H620V207")
    it.lines(
        452,
        288,
        "one probe fails: open again, the break",
        "grows by break_factor up to its maximum",
        kind="ink small",
    )
    it.line("M280 268H100V207")
    it.lines(20, 288, "successes_to_close probes", "succeed: the counts start anew", kind="ink small")
    return it


def timeline() -> Drawing:
    """A call with a queue, a failure, a backoff and a second attempt."""
    it = Drawing(396, "What host and core say to each other during one call")
    moments = {"begin": 170, "grant": 270, "fail": 400, "due": 520, "end": 640}
    it.text(16, 40, "the host says", "ink bold")
    it.text(16, 98, "core answers", "ink bold")
    says = {
        "begin": ("begin", "Wait: queue"),
        "grant": ("Poll", "Attempt 1"),
        "fail": ("Finished: 503", "Wait: backoff"),
        "due": ("Timer", "Attempt 2"),
        "end": ("Finished: 200", "Done: ok"),
    }
    for name, (event, step) in says.items():
        at = moments[name]
        it.line(f"M{at} 110V318", "thin dash", ends=False)
        it.line(f"M{at} 48V82")
        it.text(at, 40, event, "ink", "middle")
        it.text(at, 98, step, "ink", "middle")
    rows = [
        (124, "deadline", "begin", 540, "soft", "runs from begin; no retry may wait beyond it"),
        (158, "queue", "begin", 100, "warm", "waits"),
        (192, "permit", "grant", 370, "cool", "held, during the backoff too (unit = call)"),
        (226, "attempts", "grant", 130, "good", "attempt 1"),
        (226, "", "due", 120, "good", "attempt 2"),
        (260, "backoff", "fail", 120, "warm", "delay with jitter"),
    ]
    for y, name, start, length, fill, words in rows:
        it.text(16, y + 15, name, "ink")
        it.bar(moments[start], y, length, fill, words)
    it.text(16, 309, "retry budget", "ink")
    for name, change in (("fail", "− 1"), ("end", "+ 0.18")):
        at = moments[name]
        it.parts.append(f'<rect x="{at - 30}" y="294" width="60" height="22" rx="3" class="bar soft"/>')
        it.text(at, 310, change, "ink bold", "middle")
    it.lines(
        16,
        346,
        "Poll: another call has freed a permit. Its step named this call as the new owner and asked the host to wake it.",
        "Retry budget: a retry is charged when it is decided, before the wait. An answer earns part of a later retry.",
        "Between two events core does nothing: the host sleeps until the moment that the last step named, or is woken.",
    )
    return it


def fleet() -> Drawing:
    """Processes, their engines and the store that they share."""
    it = Drawing(390, "Three processes that share limits through one store")
    for number, x in enumerate((20, 260, 500)):
        it.parts.append(f'<rect x="{x}" y="20" width="200" height="150" rx="8" class="box paper"/>')
        it.text(x + 14, 42, f"process {number + 1}", "grey small")
        it.box(x + 14, 52, 172, 46, "cool", "engine", "decides every call")
        it.box(x + 14, 108, 172, 46, "soft", "host", "sends its commands")
        it.line(f"M{x + 90} 170V253")
        it.line(f"M{x + 110} 254V171")
    it.text(240, 206, "one script per decision,", "ink small", "middle")
    it.text(240, 223, "beside the calls", "ink small", "middle")
    it.text(480, 206, "a reply of a few integers,", "ink small", "middle")
    it.text(480, 223, "each of them bounded", "ink small", "middle")
    it.parts.append('<rect x="20" y="255" width="680" height="76" rx="8" class="box warm"/>')
    it.text(360, 276, "store: Redis or Valkey, by the server's own clock", "ink bold", "middle")
    shared = [
        ("rate limit", "tokens, leased in batches"),
        ("bulkhead", "slots, leased with fences"),
        ("breaker", "state, end of the break"),
        ("latency", "one merged sketch"),
    ]
    for number, (name, what) in enumerate(shared):
        at = 105 + 170 * number
        it.text(at, 300, name, "ink small bold", "middle")
        it.text(at, 317, what, "ink small", "middle")
    it.lines(
        20,
        356,
        "A call waits for the store only if its process has no leased token or slot left: at most store_timeout (50 ms).",
        "While the store is lost, no call waits for it. on_loss decides: local share, open (all pass) or closed (all refused).",
    )
    return it


def call() -> Drawing:
    """The states of a call, without its many ways out."""
    it = Drawing(372, "The states of a call between its begin and its end")
    it.box(20, 66, 130, 56, "good", "Passing", "through the stages")
    it.parts.append('<rect x="262" y="20" width="286" height="152" rx="8" class="box paper"/>')
    it.box(274, 32, 126, 40, "warm", "Held", "by a similar path")
    it.box(274, 78, 126, 40, "warm", "Paced", "waits for tokens")
    it.box(274, 124, 126, 40, "warm", "Queued", "waits for a permit")
    it.box(432, 124, 104, 40, "warm", "Granted", "has a permit")
    it.line("M400 144H431")
    it.text(538, 42, "waiting", "grey small", "end")
    it.line("M150 80H261")
    it.text(206, 72, "a stage says wait", "ink small", "middle")
    it.line("M262 108H151")
    it.text(206, 126, "its turn came,", "ink small", "middle")
    it.text(206, 142, "its owner polled", "ink small", "middle")
    it.box(600, 72, 104, 48, "bad", "Refused", "owner is woken")
    it.line("M548 96H599")
    it.lines(602, 138, "out of time,", "shed, displaced", "or forced open")
    it.box(20, 212, 130, 48, "cool", "Running", "one to four attempts")
    it.line("M36 122V211")
    it.text(43, 172, "attempt starts", "ink small")
    it.box(262, 212, 126, 48, "warm", "Backoff", "before a retry")
    it.line("M150 226H261")
    it.text(206, 244, "failed, charged", "ink small", "middle")
    it.line("M300 212V186H138V123")
    it.text(218, 180, "the wait is over", "ink small", "middle")
    it.box(420, 212, 104, 48, "cool", "Body", "is being read")
    it.line("M85 260V292H472V261")
    it.text(290, 308, "the head of a good answer, where the permit covers the body", "ink small", "middle")
    it.lines(
        20,
        340,
        "Each state can also end: Done at once, Ended while something of the call still runs, Lost if its host is silent.",
        "The table below has all of these transitions.",
    )
    return it


def collapse() -> Drawing:
    """The chart of E6."""
    it = Drawing(336, "Share of servers that stay down after a pulse of load, by load and retry policy")
    charts.collapse(it)
    return it


def amplification() -> Drawing:
    """The chart of E1."""
    it = Drawing(336, "Attempts per call by the share of attempts that fail, for three retry policies")
    charts.amplification(it)
    return it


DRAWINGS = {
    "stages": stages,
    "breaker": breaker,
    "timeline": timeline,
    "fleet": fleet,
    "call": call,
    "collapse": collapse,
    "amplification": amplification,
}


def files() -> dict[str, str]:
    """The text of each file by its name."""
    return {f"{name}.svg": draw().svg() for name, draw in DRAWINGS.items()}


def main() -> None:
    """Writes the files, or compares them."""
    texts = files()
    if sys.argv[1:] == ["--check"]:
        stale = [name for name, text in texts.items() if (HERE / name).read_text("utf-8") != text]
        if stale:
            sys.exit(f"docs/drawings: {', '.join(stale)} differ from what draw.py draws: run it")
        return
    for name, text in texts.items():
        (HERE / name).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()

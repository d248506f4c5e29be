"""The three providers: processes of `tidegate-origin` with a fake provider of language models each."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class World:
    """What the chats meet. Seconds unless another unit is named."""

    chats: int = 200
    span: float = 30.0
    think: float = 8.0
    """A user reads for half to one and a half times as long before the next question."""
    patience: float = 10.0
    """An answer that is whole within it is a success."""
    first_token: float = 2.0
    """After so long without a first token, the careful arms ask the next provider."""
    seed: int = 1

    @property
    def per_second(self) -> float:
        """Requests that each provider takes: half more than a third of what the chats ask."""
        return self.chats / (self.think + 0.8) / 2 * 1.25

    @property
    def outage(self) -> tuple[float, float]:
        """The first provider answers 503."""
        return 0.2 * self.span, 0.4 * self.span

    @property
    def cut(self) -> tuple[float, float]:
        """The second provider takes a tenth."""
        return 0.5 * self.span, 0.65 * self.span

    @property
    def stalls(self) -> tuple[float, float]:
        """Streams of the third provider stall before their first token, one of five; its pings go on."""
        return 0.65 * self.span, 0.9 * self.span

    def limits(self, share: float = 1.0) -> dict[str, Any]:
        """A provider's meter, with windows of two seconds so that a short run sees many."""
        requests = max(1, round(2 * self.per_second * share))
        return {"requests": requests, "tokens": 120 * requests, "per_s": 2.0}

    def script(self, number: int) -> dict[str, Any]:
        """The script of one provider. A later one is dearer."""
        faults: list[dict[str, Any]] = []
        if number == 0:
            faults.append({"from": self.outage[0], "until": self.outage[1], "fault": "unavailable"})
        if number == 2:
            begin, end = self.stalls
            faults.append({"from": begin, "until": end, "share": 0.2, "fault": "stall", "at": 0})
        return {
            "seed": self.seed + number,
            "provider": {
                "limits": self.limits(),
                "answer_tokens": [8, 24],
                "first_token": {"kind": "lognormal", "median_ms": 250, "sigma": 0.4, "max_ms": 1500},
                "token_every": 25,
                "ping_every": 0.5,
                "price": {"input": 1.0 + number, "output": 4.0 + 4 * number},
                "faults": faults,
            },
        }


class Provider:
    """One running provider."""

    def __init__(self, url: str, control: str) -> None:
        self.url = url
        self._control = control

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """A command, and its answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._control + path, data=data, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())

    def counted(self) -> dict[str, Any]:
        """Requests, refusals, tokens and money, by the provider's own count."""
        used = self.ask("GET", "/provider").values()
        return {
            "requests": sum(one["requests"] for one in used),
            "refused": sum(sum(one["refused"].values()) for one in used),
            "dollars": sum(one["microdollars"] for one in used) / 1e6,
        }


@contextmanager
def running(binary: Path, count: int = 3) -> Iterator[list[Provider]]:
    """Starts providers and ends them; each ends by itself when this process does."""
    processes = [
        subprocess.Popen([str(binary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(count)
    ]
    try:
        providers = []
        for process in processes:
            assert process.stdout
            addresses = json.loads(process.stdout.readline())
            providers.append(Provider(addresses["url"], addresses["control"]))
        yield providers
    finally:
        for process in processes:
            assert process.stdin and process.stdout
            process.stdin.close()
            process.wait(10)
            process.stdout.close()

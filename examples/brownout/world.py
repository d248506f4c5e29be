"""The world of the demo: every number that shapes the server, the load and the clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class World:
    """One experiment. Times are seconds since its start; rates are per second."""

    seed: int = 1
    """Seeds the arrival times and the server's service times."""

    offered: float = 60.0
    """Calls per second, open loop: a caller does not wait for an answer before its next call."""

    workers: int = 4
    service_ms: float = 40.0
    """Mean service time (exponential) of a healthy worker."""
    queue: int = 200
    """Places before the workers, first in, first out; a request that finds none free gets a 503 at once."""
    error_rate: float = 0.02
    """Requests answered 503 at any time, brown-out or not: the everyday trouble that retries are for."""

    brownout_from: float = 8.0
    brownout_until: float = 14.0
    brownout_factor: float = 4.0
    """How many times longer a service takes during the brown-out. Nothing else changes."""
    end: float = 54.0

    attempt_timeout: float = 0.5
    """How long any client waits for one attempt."""
    deadline: float = 2.0
    """A call answered later than this does not count as a success, with or without a policy."""
    tries: int = 3
    """Attempts per call, at most: the naive loop's and Tidegate's."""
    naive_pause: float = 0.1
    """The naive loop's pause before it tries again."""

    max_concurrency: int = 16
    max_queue: int = 16
    acquire_timeout: float = 0.2
    """Tidegate's bulkhead: about four times what is in flight on a normal day."""

    @classmethod
    def quick(cls, seed: int) -> World:
        """A third of the length; the naive run is dead for a shorter while."""
        return cls(seed=seed, brownout_from=4.0, brownout_until=8.0, end=20.0)

    @property
    def capacity(self) -> float:
        """Requests per second that the healthy server can work off."""
        return self.workers / (self.service_ms / 1000.0)

    def script(self) -> dict[str, Any]:
        """This world as a script for `tidegate-origin`."""
        unavailable = {"status": 503}
        return {
            "seed": self.seed,
            "capacity": {
                "workers": self.workers,
                "queue": self.queue,
                "service": {"kind": "exponential", "mean_ms": self.service_ms},
                "when_full": unavailable,
            },
            "phases": [
                {"from": 0, "error_rate": self.error_rate, "error": unavailable},
                {
                    "from": self.brownout_from,
                    "until": self.brownout_until,
                    "service_factor": self.brownout_factor,
                },
            ],
        }

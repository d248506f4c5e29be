"""What a user's first minute looks like: the wheel alone, in a new environment outside the repository.

`cargo xtask test` runs this with every CPython that it finds. It needs nothing but the wheel; where httpx is
there too, the same is done through it.
"""

import asyncio
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import tidegate


class Flaky(BaseHTTPRequestHandler):
    """Answers 503 twice, then 200, and so on."""

    requests = 0

    def do_GET(self) -> None:
        """Counts, and answers."""
        Flaky.requests += 1
        self.send_response(200 if Flaky.requests % 3 == 0 else 503)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def main() -> None:
    """Retries over a real server in every shape, and refuses anything but the installed wheel."""
    file = Path(tidegate.__file__).resolve()
    if not file.is_relative_to(Path(sys.prefix).resolve()):
        sys.exit(f"`import tidegate` found {file}, outside {sys.prefix}")
    server = HTTPServer(("127.0.0.1", 0), Flaky)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/"
    # A new budget has two retries, and an answered call earns 0.18 of one. So every shape has a route of its
    # own, and with it a budget.
    policy = tidegate.Policy("smoke", deadline=20, retry={"max_attempts": 3, "backoff": {"base": 0.01}})

    @policy
    def fetch() -> bytes:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.read()

    check(fetch() == b"ok" and Flaky.requests == 3, "a sync call is retried")

    async def attempt() -> bytes:
        return await asyncio.to_thread(fetch.__wrapped__)

    check(
        asyncio.run(policy.at(route="async").acall(attempt)) == b"ok" and Flaky.requests == 6,
        "an async call is retried",
    )
    try:
        tidegate.Policy(retry={"max_attempts": 0})
    except tidegate.PolicyError as error:
        check("must be a whole number from 1 to 255" in str(error), "a mistake is named")
    else:
        check(False, "a mistake is refused")
    shapes = "sync, async"
    if find_spec("httpx"):
        import httpx

        from tidegate.httpx import Transport

        with httpx.Client(transport=Transport(policy=policy, module=httpx)) as client:
            response = client.get(url)
        check(response.text == "ok" and response.extensions["tidegate"]["attempts"] == 3, "httpx retries")
        shapes += ", httpx"
    server.shutdown()
    server.server_close()
    print(f"   tidegate {version('tidegate')} on Python {sys.version.split()[0]} ({shapes}): {file}")


def check(holds: bool, what: str) -> None:
    """Exits where something does not hold."""
    if not holds:
        sys.exit(f"it does not hold that {what} ({Flaky.requests} requests)")


if __name__ == "__main__":
    main()

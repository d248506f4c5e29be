"""What all doors keep: their examples run, and they need none of the libraries that they stand in for."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

from tidegate import compat

DOORS = ("httpware", "hawkapi")


def modules() -> list[ModuleType]:
    found = pkgutil.walk_packages(compat.__path__, "tidegate.compat.")
    names = [module.name for module in found if module.name.split(".")[2] in DOORS]
    return [importlib.import_module(name) for name in names]


@pytest.mark.parametrize("door", DOORS)
def test_the_examples_run(door: str) -> None:
    public = importlib.import_module(f"tidegate.compat.{door}")
    ours = [module for module in modules() if module.__name__.split(".")[2] == door]
    ran = [doctest.testmod(module, extraglobs=vars(public)) for module in ours]
    assert sum(result.failed for result in ran) == 0
    assert sum(result.attempted for result in ran) >= 6


@pytest.mark.parametrize("door", DOORS)
def test_every_public_name_is_documented(door: str) -> None:
    public = importlib.import_module(f"tidegate.compat.{door}")
    for name in public.__all__:
        assert getattr(public, name).__doc__, name


def test_importing_the_doors_imports_neither_library() -> None:
    program = """
import sys
import tidegate.compat.httpware, tidegate.compat.hawkapi
heavy = {"httpware", "hawkapi", "httpx", "httpx2", "asyncio", "prometheus_client", "opentelemetry"}
print(sorted(heavy & set(sys.modules)))
"""
    assert _run(program) == "[]"


def test_the_door_without_httpware() -> None:
    program = """
import sys
sys.modules["httpware"] = None
import httpx
from tidegate.compat.httpware import Bulkhead, BulkheadFullError
from tidegate.compat.httpware import Retry, RetryBudget, RetryBudgetExhaustedError

answers = [503, 503, 200]

def send(request):
    response = httpx.Response(answers.pop(0), request=request)
    return response.raise_for_status()

request = httpx.Request("GET", "http://api.test/")
assert Retry(base_delay=0)(request, send).status_code == 200
answers += [503]
try:
    Retry(budget=RetryBudget(min_retries_per_sec=0, percent_can_retry=0))(request, send)
except RetryBudgetExhaustedError as error:
    assert error.last_response.status_code == 503 and type(error) is RetryBudgetExhaustedError
bulkhead = Bulkhead(max_concurrent=1, acquire_timeout=0)
try:
    bulkhead(request, lambda request: bulkhead(request, send))
except BulkheadFullError as error:
    assert type(error) is BulkheadFullError
    print("works")
"""
    assert _run(program) == "works"


def _run(program: str) -> str:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()

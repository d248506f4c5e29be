"""What tests of users have: switches, the pytest plugin, and an import that costs little."""

from __future__ import annotations

import asyncio
import os
import pathlib
import subprocess
import sys
import threading
from importlib.metadata import entry_points
from typing import Any

import pytest

import tidegate
import tidegate.fleet
import tidegate.prometheus
from tidegate import testing
from tidegate.testing import FakeClock, MemoryStore, assert_idle, set_active, set_testing


class Flaky:
    def __init__(self, times: int) -> None:
        self.made = 0
        self.times = times

    def __call__(self) -> str:
        self.made += 1
        if self.made <= self.times:
            raise ConnectionError
        return "done"


def slow(engine: tidegate.Engine, **settings: Any) -> tidegate.Policy:
    retry = {"max_attempts": 4, "backoff": {"base": 60, "max": 600}, "budget": None}
    return tidegate.Policy(engine=engine, **{"retry": retry, **settings})


@pytest.fixture(autouse=True)
def nothing_stays() -> Any:
    yield
    assert testing.is_active()
    assert not testing.is_testing()


def test_inactive_policies_stay_out_of_the_way(fake: tidegate.Engine, both_paths: None) -> None:
    policy = slow(fake, rate_limit={"permits": 1, "per": 60}, breaker={"consecutive": 1, "break_duration": 9})
    policy.force_open()
    flaky = Flaky(9)
    with set_active(False):
        assert not testing.is_active()
        for _ in range(3):
            with pytest.raises(ConnectionError) as failed:
                policy.call(flaky)
            assert getattr(failed.value, "__notes__", []) == []
        later = slow(fake, name="later")
        with pytest.raises(ConnectionError):
            later.call(flaky)

        async def main() -> str:
            async def work() -> str:
                return "through"

            return await policy.acall(work)

        assert asyncio.run(main()) == "through"
        with pytest.raises(ConnectionError):
            slow(tidegate.Engine(seed=1, clock=FakeClock())).call(flaky)
    assert flaky.made == 5
    with pytest.raises(tidegate.ForcedOpen):
        policy.call(int)
    policy.force_open(on=False)
    assert policy.call(int) == 0
    assert later.call(Flaky(1)) == "done"


def test_inactive_is_told_nothing_by_deadlines(fake: tidegate.Engine) -> None:
    policy = slow(fake).at(deadline=0.0)
    with pytest.raises(tidegate.DeadlineExceeded):
        policy.call(int)
    with set_active(False), tidegate.deadline(0.0):
        assert policy.call(int) == 0


def test_testing_makes_so_many_attempts_without_waits(fake: tidegate.Engine, both_paths: None) -> None:
    assert isinstance(fake.clock, FakeClock)
    policy, plain = slow(fake, name="p"), tidegate.Policy(deadline=99, engine=fake)
    for attempts, cap, made in ((1, False, 1), (9, False, 9), (9, True, 4), (2, True, 2)):
        flaky = Flaky(99)
        with set_testing(attempts=attempts, cap=cap):
            assert testing.is_testing()
            with pytest.raises(ConnectionError):
                policy.call(flaky)
            assert slow(fake, name="p").engine is fake, "the same policy again"
            with pytest.raises(tidegate.PolicyError, match="other settings"):
                tidegate.Policy("p", deadline=1, engine=fake)
            with pytest.raises(ConnectionError):
                plain.call(Flaky(1))
        assert flaky.made == made
    assert fake.clock.now() == 0.0
    assert policy.call(Flaky(3)) == "done"
    assert fake.clock.now() > 60, "as it was"


@pytest.mark.parametrize("kind", ["earned", "window", "tokens"])
def test_testing_makes_its_attempts_whatever_the_budget_has(fake: tidegate.Engine, kind: str) -> None:
    budgets: dict[str, Any] = {
        "earned": {"kind": "earned", "start": 1},
        "window": {"kind": "window", "min_retries_per_sec": 0},
        "tokens": {"kind": "tokens", "max": 2, "ratio": 0.1},
    }
    policy = tidegate.Policy("p", retry={"max_attempts": 3, "budget": budgets[kind]}, engine=fake)
    with set_testing(attempts=7):
        for _ in range(2):
            flaky = Flaky(99)
            with pytest.raises(ConnectionError):
                policy.call(flaky)
            assert flaky.made == 7
    flaky = Flaky(99)
    with pytest.raises(ConnectionError):
        policy.call(flaky)
    assert flaky.made == (2 if kind == "earned" else 1), "the budget has the balance that it had before"


def test_testing_holds_for_what_comes_and_is_retuned(fake: tidegate.Engine) -> None:
    with set_testing(attempts=2):
        policy = slow(fake, name="new")
        with pytest.raises(ConnectionError):
            policy.call(Flaky(2))
        policy.retune(retry={"max_attempts": 5, "backoff": {"base": 60, "max": 600}, "budget": None})
        with pytest.raises(ConnectionError):
            policy.call(Flaky(2))
        other = tidegate.Engine(seed=2, clock=FakeClock())
        with pytest.raises(ConnectionError):
            slow(other).call(Flaky(2))
    assert policy.call(Flaky(4)) == "done"
    assert policy.explain().max_attempts == 5


def test_switches_nest_and_say_what_is_wrong() -> None:
    with set_testing(attempts=3), set_active(False):
        assert testing.is_testing()
        with set_testing(False):
            assert not testing.is_testing()
            assert not testing.is_active()
        assert testing.is_testing()
    set_active(False)
    set_active(True)
    for wrong in (0, 101):
        with pytest.raises(ValueError, match=f"attempts = {wrong}: must be a whole number from 1 to 100"):
            set_testing(attempts=wrong)


def test_idle_is_asserted_with_all_that_is_left(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy("one", bulkhead={"max_concurrency": 1, "max_queue": 5}, engine=engine)
    inside, go_on = threading.Event(), threading.Event()
    holder = threading.Thread(target=lambda: policy.call(lambda: (inside.set(), go_on.wait(10))))
    holder.start()
    inside.wait(10)
    try:
        with pytest.raises(AssertionError) as failed:
            assert_idle(engine)
    finally:
        go_on.set()
        holder.join()
    assert str(failed.value) == (
        "tidegate is not idle: live 1, 1 active (policy one, route default),"
        " 1 permits out (policy one, route default)"
    )
    assert_idle(engine)
    assert_idle()


PLUGIN = """
import tidegate

def test_minutes_pass_at_once(tidegate_clock):
    policy = tidegate.Policy("p", retry={"max_attempts": 4, "backoff": {"base": 60, "max": 600}})
    answers = iter([TimeoutError(), TimeoutError(), TimeoutError(), "done"])
    def fetch():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer
    assert policy.call(fetch) == "done"
    assert tidegate_clock.now() > 60

def test_each_test_has_its_own(tidegate_clock):
    assert tidegate_clock.now() == 0.0
    policy = tidegate.Policy("p", bulkhead={"max_concurrency": 1})
    policy.attempts().__iter__()

def test_what_is_left_is_found(tidegate_clock):
    policy = tidegate.Policy("p", bulkhead={"max_concurrency": 1})
    left = iter(policy.attempts())
    next(left)
    globals()["kept"] = left
"""


def run(*args: str, cwd: Any = None) -> subprocess.CompletedProcess[str]:
    source = pathlib.Path(tidegate.__file__).parents[1]
    return subprocess.run(
        [sys.executable, *args],
        env={**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": ""},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_pytest_plugin_has_a_clock(tmp_path: pathlib.Path) -> None:
    (tmp_path / "test_it.py").write_text(PLUGIN, encoding="utf-8")
    named = [point.value for point in entry_points(group="pytest11") if point.name == "tidegate"]
    assert named in ([], ["tidegate._pytest"])
    plugin = [] if named else ["-p", "tidegate._pytest"]  # from the source tree nothing is installed
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, str(tmp_path), cwd=tmp_path)
    assert "3 passed, 1 error" in done.stdout, done.stdout
    assert "tidegate is not idle: live 1" in done.stdout


IN_A_LOOP = """
import asyncio, tidegate

def test_an_idle_loop_moves_the_clock(tidegate_clock):
    tidegate_clock.autojump = True
    policy = tidegate.Policy("p", retry={"max_attempts": 3, "backoff": {"base": 60, "max": 600}})
    answers = iter([TimeoutError(), TimeoutError(), "done"])
    async def fetch():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer
    assert asyncio.run(policy.acall(fetch)) == "done"
    assert tidegate_clock.now() > 18

def test_the_next_test_moves_it_itself(tidegate_clock):
    assert not tidegate_clock.autojump and tidegate_clock.threshold == 0
"""


@pytest.mark.parametrize("session", [False, True])
def test_the_plugins_clock_moves_by_itself_where_a_test_asks(tmp_path: pathlib.Path, session: bool) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\ntidegate_clock = {session}\n", "utf-8")
    (tmp_path / "test_it.py").write_text(IN_A_LOOP, "utf-8")
    told = pytest_in(tmp_path)
    assert "2 passed" in told, told


MODULE = """
import tidegate

shop = tidegate.Policy(
    "shop",
    retry={"max_attempts": 4, "backoff": {"base": 60, "max": 600}, "budget": None},
    breaker={"consecutive": 1, "break_duration": 600},
)
"""
AT_MODULE_LEVEL = """
import pytest, shop_policies, tidegate

def failing():
    raise TimeoutError

@pytest.mark.parametrize("time", [1, 2])
def test_minutes_pass_at_once_for_a_policy_of_a_module(tidegate_clock, time):
    assert tidegate_clock.now() == 0.0
    with pytest.raises(TimeoutError):
        shop_policies.shop.call(failing)
    assert 10 < tidegate_clock.now() < 1800
    with pytest.raises(tidegate.BreakerOpen):
        shop_policies.shop.call(failing)
"""
NOT_DRIVEN = """
import shop_policies

def test_a_policy_of_a_module_is_not_driven(tidegate_clock):
    shop_policies.shop.call(int)
"""


def pytest_in(folder: pathlib.Path, *args: str) -> str:
    plugin = [] if entry_points(group="pytest11").names & {"tidegate"} else ["-p", "tidegate._pytest"]
    return run("-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *args, str(folder), cwd=folder).stdout


def test_the_plugins_clock_drives_policies_of_modules_where_the_project_asks(tmp_path: pathlib.Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ntidegate_clock = true\npythonpath = .\n", "utf-8")
    (tmp_path / "conftest.py").write_text("import shop_policies\n", "utf-8")
    (tmp_path / "shop_policies.py").write_text(MODULE, "utf-8")
    (tmp_path / "test_it.py").write_text(AT_MODULE_LEVEL, "utf-8")
    told = pytest_in(tmp_path)
    assert "2 passed" in told, told


def test_the_plugin_says_which_policy_its_clock_does_not_drive(tmp_path: pathlib.Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n", "utf-8")
    (tmp_path / "shop_policies.py").write_text(MODULE, "utf-8")
    (tmp_path / "test_it.py").write_text(NOT_DRIVEN, "utf-8")
    told = pytest_in(tmp_path)
    assert "1 passed, 1 warning" in told, told
    assert "tidegate_clock does not drive policy 'shop', which was made before the test" in told
    assert "set tidegate_clock = true under [tool.pytest.ini_options]" in told


def test_the_entry_point_is_there() -> None:
    project = (pathlib.Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.entry-points.pytest11]\ntidegate = "tidegate._pytest"' in project


MODULES = """
import sys
before = set(sys.modules)
import tidegate
print(*sorted(set(sys.modules) - before))
"""
FORBIDDEN = (
    "aiohttp asyncio anyio dataclasses email http httpx httpx2 inspect logging opentelemetry"
    " prometheus_client pytest requests socket ssl structlog threading trio urllib urllib3 json tomllib"
).split()


def test_importing_it_imports_little() -> None:
    done = run("-c", MODULES)
    assert done.returncode == 0, done.stderr
    imported = done.stdout.split()
    assert "tidegate._native" in imported
    roots = {name.partition(".")[0] for name in imported}
    assert roots.isdisjoint(FORBIDDEN)
    lazy = {
        "tidegate." + name
        for name in (
            "testing",
            "events",
            "_engine.explain",
            "_engine.log",
            "_engine.metrics",
            "_engine.record",
            "_call.tasks",
            "parts",
            "_http",
        )
    }
    assert lazy.isdisjoint(imported)


TIMES = """
import time
start = time.process_time()
import contextvars, datetime, typing, weakref
others = time.process_time()
import tidegate
print(others - start, time.process_time() - others)
"""


def test_importing_it_takes_little_beside_the_standard_librarys_part_of_it() -> None:
    """Beside what it needs of the standard library, in processor time: a slow machine measures the same.

    On 3.11 ours is less than half of it, on 3.13, whose standard library is quicker, as much.
    """
    run("-c", "import tidegate")
    runs = [[float(span) for span in run("-c", TIMES).stdout.split()] for _ in range(9)]
    others, own = min(first for first, _ in runs), min(second for _, second in runs)
    assert own < 1.5 * others, f"own {own * 1e3:.1f} ms, the standard library's {others * 1e3:.1f} ms"


def test_a_policy_in_place_of_its_engine_is_named(engine: tidegate.Engine) -> None:
    policy: Any = tidegate.Policy("shop", deadline=1.0, engine=engine)
    for take in (
        assert_idle,
        tidegate.prometheus.instrument,
        lambda it: tidegate.fleet.attach(MemoryStore(), engine=it),
    ):
        with pytest.raises(TypeError, match=r"engine = Policy\('shop'.*: must be a tidegate.Engine"):
            take(policy)

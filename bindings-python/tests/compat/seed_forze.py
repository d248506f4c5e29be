"""Runs forze's own tests of its resilience package against the door `tidegate.compat.forze`, and counts.

    python3.13 -m pip download --no-deps --no-binary :all: forze==0.16.2 && tar xzf forze-0.16.2.tar.gz
    cd forze-0.16.2/tests/unit/test_forze/application
    python3.13 -m pytest -q -p seed_forze --import-mode=importlib execution/resilience contracts/resilience

A plugin of pytest, run by hand: forze's modules of these names are the door. A test that needs an inner part
of forze (its limiter, stores, contexts, tracing) is skipped where it uses that part. `sleep=` of an executor
is replaced by a clock on which waits take no time.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import types
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

import pytest

import tidegate
from tidegate.compat import forze as door
from tidegate.testing import FakeClock


class _Admin(door.ResilienceExecutor):
    """Its administration is asynchronous in forze."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in ("force_open", "clear_forced_open", "inspect", "retune"):
            return found

        async def awaited(*args: Any, **more: Any) -> Any:
            return found(*args, **more)

        return awaited


def _executor(*args: Any, sleep: Any = None, **more: Any) -> Any:
    if "clock" in more or "blanket_policy_bindings" in more:
        pytest.skip("injects an inner part of forze")
    if sleep is not None:
        more["engine"] = tidegate.Engine(seed=1, clock=FakeClock(autojump=True))
    return _Admin(*args, **more)


_HERE = {
    "forze.application.contracts.resilience": {name: getattr(door, name) for name in door.__all__},
    "forze.application.execution.resilience": {"InProcessResilienceExecutor": _executor},
    "forze.application.execution": {"ResilienceDepsModule": door.ResilienceDepsModule},
    "forze.application.execution.context.deadline": {"bind_deadline": door.bind_deadline},
    "forze.application.execution.context.criticality": {
        "Criticality": door.Criticality,
        "bind_criticality": door.bind_criticality,
        "current_criticality": door.current_criticality,
    },
    "forze.base.exceptions": {
        "CoreException": door.CoreException,
        "ExceptionKind": door.ExceptionKind,
        "exc": door.exc,
    },
}


class _Inner:
    """Stands for an inner part of forze: a test that uses it is skipped."""

    def __init__(self, *args: Any, **more: Any) -> None:
        pytest.skip("needs an inner part of forze")

    def __class_getitem__(cls, item: Any) -> Any:
        return cls


class _Modules(MetaPathFinder, Loader):
    """Finds each module of forze: the door's names, and placeholders for all others."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in ("forze", "forze_mock"):
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return types.ModuleType(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module).update(_HERE.get(module.__name__, {}))

        def missing(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (_Inner,), {})

        module.__getattr__ = missing  # type: ignore[method-assign]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "asyncio: run in an event loop")
    sys.meta_path.insert(0, _Modules())


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True

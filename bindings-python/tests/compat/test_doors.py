"""The examples in the doors' docstrings."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
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

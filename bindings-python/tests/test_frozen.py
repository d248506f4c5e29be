"""The options and `Outcome` are dataclasses in all but how they are made."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys

import pytest

import tidegate

OPTIONS = [
    tidegate.Backoff, tidegate.Breaker, tidegate.Budget, tidegate.Bulkhead, tidegate.Hedge,
    tidegate.HedgeBudget, tidegate.RateLimit, tidegate.Retry, tidegate.Throttle,
]  # fmt: skip


@pytest.mark.parametrize("kind", OPTIONS)
def test_what_is_left_out_is_neither_shown_nor_a_difference(kind: type) -> None:
    names = [field.name for field in dataclasses.fields(kind)]
    assert names
    assert repr(kind()) == f"{kind.__name__}()"
    given = kind(**{names[-1]: 1})
    assert repr(given) == f"{kind.__name__}({names[-1]}=1)"
    assert given != kind()
    assert given == kind(**{names[-1]: 1}) and hash(given) == hash(kind(**{names[-1]: 1}))
    assert given == kind(**{names[0]: getattr(kind(), names[0]), names[-1]: 1})


def test_options_of_another_kind_are_never_equal() -> None:
    assert tidegate.Budget(kind="none") != tidegate.HedgeBudget(kind="none")
    assert tidegate.Budget() != {}


@pytest.mark.parametrize("kind", OPTIONS)
def test_there_are_keyword_arguments_alone_and_only_those_that_exist(kind: type) -> None:
    with pytest.raises(TypeError, match=rf"{kind.__name__}\.__init__\(\) .* argument 'retires'"):
        kind(retires=3)
    with pytest.raises(TypeError, match="positional argument"):
        kind(3)


def test_they_cannot_be_changed() -> None:
    for it in (tidegate.Retry(max_attempts=3), tidegate.Outcome("ok")):
        before = repr(it)
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'hold'"):
            it.hold = True
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'kind'"):
            del it.kind
        assert repr(it) == before


@pytest.mark.parametrize("it", [tidegate.Retry(max_attempts=3, backoff={"base": 1}), tidegate.Outcome("ok")])
def test_they_are_copied_and_pickled(it: object) -> None:
    copies = [copy.copy(it), copy.deepcopy(it)]
    copies += [pickle.loads(pickle.dumps(it, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    assert all(other == it and repr(other) == repr(it) for other in copies)


def test_the_functions_of_dataclasses_take_them_for_their_own() -> None:
    retry = tidegate.Retry(max_attempts=3)
    assert dataclasses.is_dataclass(retry) and dataclasses.is_dataclass(tidegate.Outcome)
    more = dataclasses.replace(retry, hold=True)
    assert more == tidegate.Retry(max_attempts=3, hold=True) and type(more) is tidegate.Retry
    unset = tidegate.Retry().hold
    assert dataclasses.asdict(retry) == dict.fromkeys(retry.fields(), unset) | {"max_attempts": 3}
    assert dataclasses.asdict(tidegate.Outcome("ok", retry_after=1.5)) == {
        "kind": "ok", "opinion": None, "retry_after": 1.5,
    }  # fmt: skip
    assert dataclasses.replace(tidegate.Outcome("ok"), opinion="retry") == tidegate.Outcome("ok", "retry")
    if sys.version_info >= (3, 13):
        assert copy.replace(retry, hold=True) == more

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Mine(tidegate.Retry):
        owner: str = "me"

    assert Mine(max_attempts=2).owner == "me" and Mine(max_attempts=2).max_attempts == 2


def test_their_signatures_are_those_of_dataclasses() -> None:
    retry = inspect.signature(tidegate.Retry)
    assert list(retry.parameters) == [field.name for field in dataclasses.fields(tidegate.Retry)]
    assert {of.kind for of in retry.parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    assert str(retry.parameters["max_attempts"]) == "max_attempts: 'int' = ..."
    outcome = inspect.signature(tidegate.Outcome)
    assert list(outcome.parameters) == ["kind", "opinion", "retry_after"]
    assert outcome.parameters["kind"].default is inspect.Parameter.empty

"""The dashboard and the alerts of `docs/telemetry` ask for what the collector exposes, and for all of it."""

from __future__ import annotations

import json
import pathlib
import re

import prometheus_client
import pytest
import yaml

import tidegate
import tidegate.prometheus
from tidegate import _native
from tidegate._engine.metrics import FAMILIES

FOLDER = pathlib.Path(__file__).parents[2] / "docs" / "telemetry"
OURS = {family.name: {"policy", "route", *family.labels} for family in FAMILIES}
STAGES = {
    *("operator", "breaker", "throttle", "rate_limit", "bulkhead", "hold", "cooldown", "store", "target"),
    "deadline",
}


def dashboard() -> list[str]:
    board = json.loads((FOLDER / "grafana.json").read_text(encoding="utf-8"))
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    shown = [panel for panel in board["panels"] if panel["type"] != "row"]
    panels = [target["expr"] for panel in shown for target in panel["targets"]]
    variables = [it["definition"] for it in board["templating"]["list"] if it["type"] == "query"]
    assert all(panel["title"] and panel["description"] for panel in shown)
    rows = [panel["title"] for panel in board["panels"] if panel["type"] == "row"]
    assert rows == ["Metered and streaming services"]
    return panels + variables


def alerts() -> list[str]:
    rules = yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))
    found = [rule for group in rules["groups"] for rule in group["rules"]]
    assert all({"alert", "expr", "for", "labels", "annotations"} <= set(rule) for rule in found)
    return [rule["expr"] for rule in found]


def exposed() -> dict[str, set[str]]:
    """The names and labels of samples that a real registry gives out, from the text that Prometheus reads."""
    engine = tidegate.Engine(seed=1)
    registry = prometheus_client.CollectorRegistry()
    tidegate.prometheus.instrument(engine, registry=registry)
    names: dict[str, set[str]] = {}
    for line in prometheus_client.generate_latest(registry).decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            ends = ["_bucket", "_sum", "_count"] if kind == "histogram" else [""]
            for end in ends:
                names[name + end] = OURS[name] | ({"le"} if end == "_bucket" else set())
    return names


def wrong(expr: str, known: dict[str, set[str]]) -> list[str]:
    """What an expression asks for that there is not."""
    mistakes = []
    used = re.findall(r"(tidegate_[a-z_]+)(?:\{([^}]*)\})?", expr)
    if not used:
        mistakes.append(f"asks for nothing: {expr}")
    labels: set[str] = set()
    for name, matchers in used:
        if name not in known:
            mistakes.append(f"no metric is {name}")
            continue
        labels |= known[name]
        for label, value in re.findall(r"(\w+)\s*!?=~?\s*\"([^\"]*)\"", matchers):
            if label not in known[name]:
                mistakes.append(f"{name} has no label {label}")
            if label == "stage" and value not in STAGES:
                mistakes.append(f"no stage is {value}")
            if label in ("outcome", "reason") and value not in _native.verdicts():
                mistakes.append(f"no verdict is {value}")
    for group in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", expr):
        mistakes += [
            f"{label} is no label there" for label in re.split(r",\s*", group) if label not in labels
        ]
    return mistakes


@pytest.mark.parametrize("expr", [*dashboard(), *alerts()])
def test_an_expression_asks_for_what_there_is(expr: str) -> None:
    assert wrong(expr, exposed()) == []


def test_the_dashboard_leaves_nothing_out() -> None:
    text = "\n".join(dashboard())
    assert [name for name in OURS if name not in text] == []


@pytest.mark.parametrize(
    ("expr", "mistake"),
    [
        ("rate(tidegate_call_total[5m])", "no metric is tidegate_call_total"),
        ('tidegate_calls_total{verdict="ok"}', "tidegate_calls_total has no label verdict"),
        ('tidegate_calls_total{outcome="okay"}', "no verdict is okay"),
        ("sum by (stage) (tidegate_calls_total)", "stage is no label there"),
        ("tidegate_call_duration_seconds", "no metric is tidegate_call_duration_seconds"),
        ("up == 0", "asks for nothing: up == 0"),
    ],
)
def test_the_check_finds_mistakes(expr: str, mistake: str) -> None:
    assert wrong(expr, exposed()) == [mistake]

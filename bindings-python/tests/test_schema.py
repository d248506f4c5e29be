"""docs/policy.schema.json against the documents that every language reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")

ROOT = Path(__file__).resolve().parents[2]
VECTORS = json.loads((ROOT / "tests/vectors/documents/documents.json").read_text("utf-8"))["documents"]


@pytest.fixture(scope="module")
def schema() -> Any:
    text = json.loads((ROOT / "docs/policy.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(text)
    return jsonschema.Draft202012Validator(text)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_schema_takes_what_it_should(schema: Any, vector: dict[str, Any]) -> None:
    errors = [f"{error.json_path}: {error.message}" for error in schema.iter_errors(vector["document"])]
    assert (not errors) == vector["schema"], errors


def test_the_schema_refuses_nothing_that_core_takes() -> None:
    assert all(vector["schema"] for vector in VECTORS if vector["valid"])

"""Writes a CycloneDX list of what a crate is built from, from the output of `cargo metadata`.

    cargo metadata --format-version 1 --locked > metadata.json
    python xtask/release/sbom.py tidegate-tokio metadata.json tidegate-tokio.cdx.json

It lists what is built into the crate, and leaves out what only its tests need.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def closure(metadata: dict[str, Any], root: str) -> set[str]:
    """The ids of a package and of all that it is built from, without what only its tests need."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    seen: set[str] = set()
    waiting = [root]
    while waiting:
        package = waiting.pop()
        if package in seen:
            continue
        seen.add(package)
        for dependency in nodes[package]["deps"]:
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    return seen


def component(package: dict[str, Any]) -> dict[str, Any]:
    """A package as CycloneDX names it."""
    name, version = package["name"], package["version"]
    purl = f"pkg:cargo/{name}@{version}"
    entry = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if package["license"]:
        entry["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    return entry


def main() -> None:
    """Writes the list of one crate of the workspace."""
    name, source, target = sys.argv[1:]
    metadata = json.loads(Path(source).read_text("utf-8"))
    packages = {package["id"]: package for package in metadata["packages"]}
    mine = [it["id"] for it in metadata["packages"] if it["name"] == name and it["source"] is None]
    if len(mine) != 1:
        sys.exit(f"the workspace has {len(mine)} crates named {name}; it must have one")
    others = sorted(closure(metadata, mine[0]) - set(mine))
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(packages[mine[0]])},
        "components": [component(packages[other]) for other in others],
    }
    Path(target).write_text(json.dumps(document, indent=1), "utf-8")


if __name__ == "__main__":
    main()

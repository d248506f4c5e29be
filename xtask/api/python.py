"""Prints the public interface of the Python package, one line for each name: `python python.py <folder of the package>`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import griffe


def signature(function: griffe.Function) -> str:
    """Parameters with their kinds, types and defaults, and the type of the result."""
    parts, star = [], False
    for parameter in function.parameters:
        kind = parameter.kind
        if kind is griffe.ParameterKind.keyword_only and not star:
            parts.append("*")
            star = True
        star = star or kind is griffe.ParameterKind.var_positional
        mark = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(kind, "")
        text = f"{mark}{parameter.name}" + (f": {parameter.annotation}" if parameter.annotation else "")
        has_default = parameter.default is not None and not mark
        parts.append(text + (f" = {parameter.default}" if has_default else ""))
        if kind is griffe.ParameterKind.positional_only and not is_positional_only(function, len(parts)):
            parts.append("/")
    return f"({', '.join(parts)})" + (f" -> {function.returns}" if function.returns else "")


def is_positional_only(function: griffe.Function, at: int) -> bool:
    """Whether the parameter at this place can be given by position alone."""
    parameters = list(function.parameters)
    return at < len(parameters) and parameters[at].kind is griffe.ParameterKind.positional_only


def lines(owner: griffe.Object | griffe.Alias, path: str, seen: frozenset[str]) -> Iterator[str]:
    """The public members of a module or a class, by the names under which users find them."""
    for name, member in sorted((owner.all_members if owner.is_class else owner.members).items()):
        if not (member.is_public or (owner.is_class and name == "__init__")) or name == "annotations":
            continue
        if name.startswith("__") and not member.is_function:
            continue
        if member.is_alias:
            if not member.target_path.startswith("tidegate"):
                continue
            member = member.final_target
        here = f"{path}.{name}"
        if member.is_module:
            yield from lines(member, here, seen)
        elif member.is_class:
            bases = ", ".join(str(base) for base in member.bases)
            yield f"class {here}({bases})"
            if member.path not in seen:
                yield from lines(member, here, seen | {member.path})
        elif member.is_function:
            for form in member.overloads or [member]:
                yield f"def {here}{signature(form)}"
        else:
            yield f"{here}" + (f": {member.annotation}" if member.annotation else "")


def main() -> None:
    """Prints all names."""
    package = griffe.load("tidegate", search_paths=[sys.argv[1]], allow_inspection=False, find_stubs_package=False)
    package_lines = sorted(set(lines(package, "tidegate", frozenset())))
    sys.stdout.write("\n".join(" ".join(line.split()) for line in package_lines) + "\n")


if __name__ == "__main__":
    main()

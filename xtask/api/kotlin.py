"""Prints the public interface of Kotlin's classes, as Java sees them: `python kotlin.py <classes> <sources>`.

`javap` lists what is public in the class files. Kotlin's internal declarations are public there too. Classes and functions of files are found in
the sources, which name the visibility of every declaration; internal members have a `$` in their names, and internal constructors take internal classes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PRIVATE = ("dev/tidegate/ffi/", "dev/tidegate/internal/")


def main() -> None:
    """Prints one line for each class and each of its members."""
    classes, sources = Path(sys.argv[1]), Path(sys.argv[2])
    text = "\n".join(file.read_text("utf-8") for file in sources.rglob("*.kt"))
    hidden = r"(?:internal|private)(?: \w+)* (?:class|object|interface) (\w+)"
    internal = set(re.findall(hidden, text))
    top = set(re.findall("^" + hidden, text, re.MULTILINE))
    own = r"^(?:internal|private)(?: \w+)* (?:fun|val|var)(?: <[^>]+>)? (?:[\w.<>*, ]+\.)?(\w+)"
    functions = {f"{file.stem}Kt": set(re.findall(own, file.read_text("utf-8"), re.MULTILINE)) for file in sources.rglob("*.kt")}
    of_us = re.compile(r"dev\.tidegate\.(?:ffi|internal)\.|DefaultConstructorMarker|dev\.tidegate\.(?:\w+\.)?(?:" + "|".join(sorted(top)) + r")\b")
    names = []
    for file in sorted(classes.rglob("*.class")):
        name = file.relative_to(classes).with_suffix("").as_posix()
        parts = name.rsplit("/", 1)[-1].split("$")
        if not name.startswith(PRIVATE) and not any(part.isdigit() or part == "" or part in internal for part in parts):
            names.append(name.replace("/", "."))
    said = subprocess.run(["javap", "-protected", "-cp", str(classes), *names], capture_output=True, text=True, check=True)
    lines, owner = set(), ""
    for line in said.stdout.splitlines():
        line = " ".join(line.split())
        if line.endswith("{"):
            # A class that is neither public nor protected has no line of its own.
            owner = re.split(r" (?:class|interface) ", line)[-1].split(" ")[0].split("<")[0] if "public" in line else ""
            if owner:
                lines.add(line.removesuffix(" {"))
        elif owner and line.endswith(";") and "$" not in line.split("(")[0].replace(owner, "") and not of_us.search(line):
            name = re.split(r"[(;]", line)[0].split(" ")[-1].split("-")[0]
            getter = name[3:4].lower() + name[4:]
            if not {name, getter} & functions.get(owner.rsplit(".", 1)[-1], set()):
                lines.add(f"{owner}: {line}")
    sys.stdout.write("\n".join(sorted(lines)) + "\n")


if __name__ == "__main__":
    main()

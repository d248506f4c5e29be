"""What can be known of a wheel without running it: for the machines and systems that are not here.

    python xtask/wheels/check.py <wheel> --tag cp310-abi3-musllinux_1_2_aarch64 --source <package>

Looks at the name and its tags, the files inside, the size, the library's machine and what it needs, and the
stable ABI. Ends with an error that names the wheel, what was found, and the rule.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import binaries
from binaries import Wrong

LARGEST = 1_950_000  # ADR 0050 has what is in it; the limit is so that it does not grow unseen
MUSL = {"libc.so", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"}
SYSTEMS = {"manylinux": "linux", "musllinux": "linux", "macosx": "macos", "win": "windows"}


def check(holds: bool, what: str) -> None:
    """Refuses a wheel of which something does not hold."""
    if not holds:
        raise Wrong(what)


def tags(wheel: zipfile.ZipFile, name: str, expected: str) -> None:
    """The tags that were ordered are those of the name, and those of the metadata."""
    python, abi, platforms = expected.split("-")
    check(name.endswith(f"-{expected}.whl"), f"its tags must be {expected}")
    meta = read(wheel, r"tidegate-[^/]+\.dist-info/WHEEL").decode()
    tags = set(re.findall(r"^Tag: (.+)$", meta, re.MULTILINE))
    wanted = {f"{python}-{abi}-{platform}" for platform in platforms.split(".")}
    check(tags == wanted, f"WHEEL names the tags {sorted(tags)}; they must be {sorted(wanted)}")
    check("Root-Is-Purelib: false" in meta, "WHEEL must say that it holds a library")


def files(wheel: zipfile.ZipFile, source: Path) -> str:
    """The package as the source has it, one library, licences and types; the library's name."""
    names = {name for name in wheel.namelist() if not name.endswith("/")}
    libraries = sorted(name for name in names if name.endswith((".so", ".pyd", ".dylib")))
    check(len(libraries) == 1, f"it must hold one library, not {libraries}")
    package = {name for name in names if name.startswith("tidegate/")} - set(libraries)
    mine = {
        f"tidegate/{path.relative_to(source).as_posix()}"
        for path in source.rglob("*")
        if path.suffix in {".py", ".pyi"} or path.name == "py.typed"
    }
    check(package == mine, f"its files differ from the source's by {sorted(package ^ mine)}")
    check({"tidegate/py.typed", "tidegate/_native.pyi"} <= package, "its types must be there")
    rest = sorted(name for name in names - package - set(libraries) if ".dist-info/" not in name)
    check(not rest, f"nothing else belongs into it: {rest}")
    for licence in ("LICENSE-MIT", "LICENSE-APACHE"):
        check(any(name.endswith(f"/licenses/{licence}") for name in names), f"{licence} must be there")
    return libraries[0]


def record(wheel: zipfile.ZipFile) -> None:
    """Every file has the digest that RECORD says it has."""
    rows = csv.reader(io.StringIO(read(wheel, r"tidegate-[^/]+\.dist-info/RECORD").decode()))
    recorded = {name: digest for name, digest, _ in rows if digest}
    for name in wheel.namelist():
        if name.endswith(("/", "/RECORD")):
            continue
        digest = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(name)).digest()).rstrip(b"=")
        check(recorded.get(name) == f"sha256={digest.decode()}", f"RECORD and {name} must agree")


def metadata(wheel: zipfile.ZipFile) -> None:
    """No required dependency, the oldest Python, and the description that the index shows."""
    text = read(wheel, r"tidegate-[^/]+\.dist-info/METADATA").decode()
    required = re.findall(r"^Requires-Dist: (.+)$", text, re.MULTILINE)
    required = [line for line in required if "extra ==" not in line]
    check(not required, f"it must require no other package, not {required}")
    check("\nRequires-Python: >=3.10\n" in text, "it must be for Python 3.10 and newer")
    check(len(text) > 2_000, "its description must be there")


def library(data: bytes, platform: str) -> str:
    """The machine, and what the library needs; in words."""
    machine = "x86_64" if platform.endswith(("x86_64", "amd64")) else "aarch64"
    system = next(name for start, name in SYSTEMS.items() if platform.startswith(start))
    found = binaries.parsed(data)
    if platform.startswith("musllinux"):
        check(set(found.needs) <= MUSL, f"it must need musl alone, not {found.needs}")
    said = binaries.checked(found, f"{system}-{machine}", ["PyInit__native"])
    exported = [name for name in found.exports if system != "macos" or name.startswith("Py")]
    check(exported == ["PyInit__native"], f"it must export PyInit__native alone, not {exported}")
    return said


def audited(wheel: Path, platform: str, abi: str) -> str:
    """What auditwheel and abi3audit say; in words."""
    said = []
    # Elsewhere there are no versions to look at; for musl auditwheel would look for its libraries on this machine.
    if platform.startswith("manylinux"):
        words = " ".join(run("auditwheel", "show", str(wheel)).split())
        found = re.search(r'following platform tag: "([a-z0-9_]+)"', words)
        best = found[1] if found else f"nothing ({words})"
        check(best in platform.split("."), f"auditwheel finds it fit for {best}; it must be {platform}")
        said.append(f"auditwheel: {best}")
    if abi == "abi3":
        run("abi3audit", "--strict", str(wheel))
        said.append("abi3audit: the stable ABI alone")
    return "; ".join(said)


def run(program: str, *args: str) -> str:
    """The output of a tool that lies beside this interpreter."""
    command = [Path(sys.executable).with_name(program), *args]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    check(ran.returncode == 0, f"{program} refuses it: {ran.stdout}{ran.stderr}")
    return ran.stdout


def read(wheel: zipfile.ZipFile, pattern: str) -> bytes:
    """The one file whose name is of this form."""
    names = [name for name in wheel.namelist() if re.fullmatch(pattern, name)]
    check(len(names) == 1, f"it must hold one file {pattern}, not {names}")
    return wheel.read(names[0])


def main() -> None:
    """Checks one wheel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--tag", required=True, help="python-abi-platform, as in the name")
    parser.add_argument("--source", type=Path, required=True, help="the package's folder")
    options = parser.parse_args()
    _, abi, platforms = options.tag.split("-")
    try:
        size = options.wheel.stat().st_size
        check(size <= LARGEST, f"it has {size} bytes; it must have {LARGEST} at most")
        with zipfile.ZipFile(options.wheel) as wheel:
            tags(wheel, options.wheel.name, options.tag)
            name = files(wheel, options.source)
            record(wheel)
            metadata(wheel)
            needs = library(wheel.read(name), platforms.split(".")[0])
        said = audited(options.wheel, platforms, abi)
    except Wrong as wrong:
        sys.exit(f"{options.wheel.name}: {wrong}")
    print(f"   {size / 1e6:.2f} MB; {needs}; {said}")


if __name__ == "__main__":
    main()

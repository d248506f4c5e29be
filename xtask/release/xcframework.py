"""Makes Tidegate.xcframework.zip from static libraries, without a Mac, and prints the checksum that SwiftPM asks for.

    python xtask/release/xcframework.py --headers <folder> --out <zip> ios:arm64=<library> macos:arm64=<library> …

An XCFramework is a folder with a list (`Info.plist`): for each system one library of all its machines, and the headers. The headers are
in a folder of their own, because Xcode copies those of all frameworks into one folder, where two module maps would collide. Nothing here
has been linked or run on Apple's systems: each library is read again, and must be for the system and the machines that the list says.
"""

from __future__ import annotations

import argparse
import hashlib
import plistlib
import struct
import sys
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "wheels"))
import binaries

NAME = "libtidegate_uniffi.a"
MACHINES = {"arm64": (0x0100_000C, 0), "x86_64": (0x0100_0007, 3)}
PLATFORMS = {"arm64": "macos-aarch64", "x86_64": "macos-x86_64"}
SYSTEMS = {"ios": ("ios", None, "iOS"), "ios-simulator": ("ios", "simulator", "iOS simulator"), "macos": ("macos", None, "macOS")}
SYMBOLS = {"tidegate_begin", "tidegate_on"}
MODULE = "TidegateNativeFFI"


def fat(libraries: dict[str, bytes]) -> bytes:
    """One file with a library for each machine; a single one stays as it is."""
    if len(libraries) == 1:
        return next(iter(libraries.values()))
    head = struct.pack(">2I", 0xCAFEBABE, len(libraries))
    body, at = b"", 4096
    for machine, data in libraries.items():
        kind, variant = MACHINES[machine]
        head += struct.pack(">5I", kind, variant, at, len(data), 12)
        padded = data + bytes(-len(data) % 4096)
        body, at = body + padded, at + len(padded)
    return head + bytes(4096 - len(head)) + body


def slices(data: bytes) -> dict[str, bytes]:
    """The libraries in such a file, by machine; one alone is for the machine of its first member."""
    if data[:4] != b"\xca\xfe\xba\xbe":
        first = next(member for _, member in binaries.members(data) if member[:4] == b"\xcf\xfa\xed\xfe")
        platform = binaries.parsed(first).platform
        return {next(machine for machine, name in PLATFORMS.items() if name == platform): data}
    found = {}
    for index in range(struct.unpack_from(">I", data, 4)[0]):
        kind, _, at, size, _ = struct.unpack_from(">5I", data, 8 + 20 * index)
        found[next(name for name, (number, _) in MACHINES.items() if number == kind)] = data[at : at + size]
    return found


def looked_at(data: bytes, system: str, machine: str) -> str:
    """Checks every object file of a library. Returns the oldest system that it is for."""
    wanted, notes, symbols = SYSTEMS[system][2], set(), set()
    for name, member in binaries.members(data):
        if member[:4] != b"\xcf\xfa\xed\xfe":
            continue
        found = binaries.parsed(member)
        if found.platform != PLATFORMS[machine]:
            raise binaries.Wrong(f"{name} must be for {machine}, and is for {found.platform}")
        notes |= {note for note in found.notes if note[0] in "mi" and note[-1].isdigit()}
        symbols |= set(found.exports)
    strange = [note for note in notes if note.rsplit(" ", 1)[0] != wanted]
    if strange or not notes:
        raise binaries.Wrong(f"the library for {system} must be for {wanted}, and has objects for {sorted(notes)}")
    if missing := SYMBOLS - symbols:
        raise binaries.Wrong(f"the library for {system} does not define {sorted(missing)}")
    return max(notes, key=lambda note: tuple(map(int, note.rsplit(" ", 1)[1].split("."))))


def made(libraries: dict[str, dict[str, bytes]], headers: dict[str, bytes]) -> dict[str, bytes]:
    """All files of the framework, by their path in it."""
    files, listed = {}, []
    for system, machines in libraries.items():
        platform, variant, _ = SYSTEMS[system]
        folder = f"{platform}-{'_'.join(machines)}" + (f"-{variant}" if variant else "")
        entry = {
            "BinaryPath": NAME,
            "HeadersPath": "Headers",
            "LibraryIdentifier": folder,
            "LibraryPath": NAME,
            "SupportedArchitectures": list(machines),
            "SupportedPlatform": platform,
        }
        if variant:
            entry["SupportedPlatformVariant"] = variant
        listed.append(entry)
        files[f"{folder}/{NAME}"] = fat(machines)
        for name, data in headers.items():
            files[f"{folder}/Headers/{MODULE}/{name}"] = data
    about = {"AvailableLibraries": listed, "CFBundlePackageType": "XFWK", "XCFrameworkFormatVersion": "1.0"}
    return {"Info.plist": plistlib.dumps(about)} | files


def check(path: Path) -> list[str]:
    """Reads the archive again: each library that the list names is there, for its system and machines, with its headers."""
    said = []
    with zipfile.ZipFile(path) as archive:
        root = "Tidegate.xcframework/"
        for entry in plistlib.loads(archive.read(f"{root}Info.plist"))["AvailableLibraries"]:
            folder = root + entry["LibraryIdentifier"]
            modules = archive.read(f"{folder}/{entry['HeadersPath']}/{MODULE}/module.modulemap").decode()
            for header in [line.split('"')[1] for line in modules.splitlines() if line.strip().startswith("header ")]:
                archive.getinfo(f"{folder}/{entry['HeadersPath']}/{MODULE}/{header}")
            variant = entry.get("SupportedPlatformVariant")
            system = next(name for name, (platform, kind, _) in SYSTEMS.items() if (platform, kind) == (entry["SupportedPlatform"], variant))
            found = slices(archive.read(f"{folder}/{entry['LibraryPath']}"))
            if list(found) != entry["SupportedArchitectures"]:
                raise binaries.Wrong(f"{folder} must have {entry['SupportedArchitectures']}, and has {list(found)}")
            least = {looked_at(data, system, machine) for machine, data in found.items()}
            said.append(f"{entry['LibraryIdentifier']}: {', '.join(sorted(least))}")
    return said


def main() -> None:
    """Makes and checks the archive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--headers", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("libraries", nargs="+", help="system:machine=file")
    options = parser.parse_args()
    libraries: dict[str, dict[str, bytes]] = {}
    for text in options.libraries:
        (system, machine), file = text.split("=")[0].split(":"), text.split("=", 1)[1]
        libraries.setdefault(system, {})[machine] = Path(file).read_bytes()
    headers = {path.name: path.read_bytes() for path in sorted(options.headers.glob("*")) if path.suffix in (".h", ".modulemap")}
    with zipfile.ZipFile(options.out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in made(libraries, headers).items():
            # A fixed date, so that equal libraries make equal archives.
            archive.writestr(zipfile.ZipInfo(f"Tidegate.xcframework/{name}", (2026, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    try:
        for line in check(options.out):
            print(f"   {line}")
    except (binaries.Wrong, KeyError, StopIteration) as wrong:
        sys.exit(f"{options.out}: {wrong!r}")
    print(f"checksum {hashlib.sha256(options.out.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()

"""What can be known of a library without loading it: its system and machine, what it needs, what it exports.

    python xtask/wheels/binaries.py <file> --platform macos-aarch64 --exports Java_dev_tidegate_internal_Native_begin

Reads ELF, Mach-O and PE. Ends with an error that names the file, what was found, and the rule.
"""

from __future__ import annotations

import argparse
import io
import re
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from elftools.elf.elffile import ELFFile

# Libraries that are part of each system.
OURS = {
    "linux": re.compile(r"lib(c|m|dl|pthread|rt|gcc_s)\.so(\.\d+)?|libc\.musl-\w+\.so\.1|ld-linux-.+"),
    "macos": re.compile(r"/usr/lib/.+|/System/Library/.+"),
    "windows": re.compile(
        r"(?i)(kernel32|ntdll|ws2_32|bcrypt|bcryptprimitives|advapi32|userenv|msvcrt|python3|api-ms-win-.+)\.dll"
    ),
}
MACHINES = {
    ("elf", "EM_X86_64"): "linux-x86_64",
    ("elf", "EM_AARCH64"): "linux-aarch64",
    ("macho", 0x0100_0007): "macos-x86_64",
    ("macho", 0x0100_000C): "macos-aarch64",
    ("pe", 0x8664): "windows-x86_64",
    ("pe", 0xAA64): "windows-aarch64",
}
APPLE = {1: "macOS", 2: "iOS", 7: "iOS simulator"}


class Wrong(Exception):
    """A rule that does not hold."""


@dataclass
class Library:
    """What a library says of itself."""

    platform: str
    needs: list[str] = field(default_factory=list)
    exports: list[str] = field(default_factory=list)
    """Names of defined global symbols, without Apple's leading underscore."""
    notes: list[str] = field(default_factory=list)
    """Version of the C library or of the system, and the signature."""
    stripped: bool = True


def parsed(data: bytes) -> Library:
    """Reads a library of any of the three formats."""
    if data[:4] == b"\x7fELF":
        return elf(data)
    if data[:4] == b"\xcf\xfa\xed\xfe":
        return macho(data)
    if data[:2] == b"MZ":
        return pe(data)
    raise Wrong(f"it is no library: it begins with {data[:4]!r}")


def elf(data: bytes) -> Library:
    """Reads an ELF library."""
    file = ELFFile(io.BytesIO(data))
    found = Library(MACHINES.get(("elf", file["e_machine"]), str(file["e_machine"])))
    found.needs = sorted(tag.needed for tag in file.get_section_by_name(".dynamic").iter_tags("DT_NEEDED"))
    defined = [it for it in file.get_section_by_name(".dynsym").iter_symbols() if it["st_shndx"] != "SHN_UNDEF"]
    found.exports = [it.name for it in defined if it["st_info"]["bind"] == "STB_GLOBAL"]
    found.stripped = not any(file.get_section_by_name(name) for name in (".debug_info", ".symtab"))
    versions = file.get_section_by_name(".gnu.version_r")
    names = [aux.name for _, auxes in versions.iter_versions() for aux in auxes] if versions else []
    numbers = [tuple(map(int, name[6:].split("."))) for name in names if re.fullmatch(r"GLIBC_[\d.]+", name)]
    if numbers:
        found.notes.append("glibc " + ".".join(map(str, max(numbers))))
    return found


def macho(data: bytes) -> Library:
    """Reads a Mach-O library or object file."""
    _, machine, _, _, count, _, _ = struct.unpack_from("<7I", data)
    found = Library(MACHINES.get(("macho", machine), f"machine {machine:#x}"))
    at = 32
    for _ in range(count):
        command, size = struct.unpack_from("<2I", data, at)
        command &= 0x7FFF_FFFF
        if command in (0x0C, 0x18, 0x1F):  # LC_LOAD_DYLIB and its variants
            (name,) = struct.unpack_from("<I", data, at + 8)
            found.needs.append(text(data, at + name))
        elif command == 0x0D:  # LC_ID_DYLIB
            (name,) = struct.unpack_from("<I", data, at + 8)
            found.notes.append(f"install name {text(data, at + name)}")
        elif command == 0x32:  # LC_BUILD_VERSION
            system, least = struct.unpack_from("<2I", data, at + 8)
            found.notes.append(f"{APPLE.get(system, system)} {least >> 16}.{least >> 8 & 255}")
        elif command in (0x24, 0x25):  # LC_VERSION_MIN_MACOSX, LC_VERSION_MIN_IPHONEOS: before 10.14 and 12
            (least,) = struct.unpack_from("<I", data, at + 8)
            found.notes.append(f"{'macOS' if command == 0x24 else 'iOS'} {least >> 16}.{least >> 8 & 255}")
        elif command == 0x1D:
            found.notes.append("signed ad hoc")
        elif command == 0x02:  # LC_SYMTAB
            symbols, number, strings, _ = struct.unpack_from("<4I", data, at + 8)
            for index in range(number):
                name, kind, section, _, _ = struct.unpack_from("<IBBHQ", data, symbols + 16 * index)
                if kind & 0xE0 == 0 and kind & 0x10 == 0 and kind & 0x01 and section:
                    found.exports.append(text(data, strings + name).removeprefix("_"))
        elif command == 0x19 and data[at + 8 : at + 24].rstrip(b"\0") == b"__DWARF":
            found.stripped = False
        at += size
    return found


def pe(data: bytes) -> Library:
    """Reads a 64-bit PE library."""
    (head,) = struct.unpack_from("<I", data, 0x3C)
    if data[head : head + 4] != b"PE\0\0":
        raise Wrong("it is no PE file")
    machine, sections, _, symbols, _, optional, _ = struct.unpack_from("<2H3I2H", data, head + 4)
    found = Library(MACHINES.get(("pe", machine), f"machine {machine:#x}"), stripped=symbols == 0)
    table = head + 24 + optional
    places = [struct.unpack_from("<4I", data, table + 40 * index + 8) for index in range(sections)]

    def offset(address: int) -> int:
        for size, start, raw, file in places:
            if start <= address < start + max(size, raw):
                return address - start + file
        raise Wrong(f"no section has the address {address:#x}")

    exports, _, imports, _ = struct.unpack_from("<4I", data, head + 24 + 112)
    if exports:
        at = offset(exports)
        (number,), (names,) = struct.unpack_from("<I", data, at + 24), struct.unpack_from("<I", data, at + 32)
        for index in range(number):
            (name,) = struct.unpack_from("<I", data, offset(names) + 4 * index)
            found.exports.append(text(data, offset(name)))
    at = offset(imports)
    while any(entry := struct.unpack_from("<5I", data, at)):
        found.needs.append(text(data, offset(entry[3])))
        at += 20
    return found


def text(data: bytes, at: int) -> str:
    """The text up to the next NUL."""
    return data[at : data.index(b"\0", at)].decode()


def members(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """The files of a static library in GNU's or BSD's format, without its indices."""
    if archive[:8] != b"!<arch>\n":
        raise Wrong("it is no static library")
    at, names = 8, b""
    while at < len(archive):
        name, size = archive[at : at + 16].decode().rstrip(), int(archive[at + 48 : at + 58])
        body = archive[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
        if name == "//":
            names = body
        elif name.startswith("#1/"):
            length = int(name[3:])
            name, body = body[:length].rstrip(b"\0").decode(), body[length:]
        elif re.fullmatch(r"/\d+", name):
            name = names[int(name[1:]) :].split(b"\n")[0].decode().rstrip("/")
        if name not in ("/", "//", "/SYM64/") and not name.startswith("__.SYMDEF"):
            yield name.rstrip("/"), body


def checked(library: Library, platform: str, exports: list[str]) -> str:
    """Checks the platform, what is needed beside the system, and the exports. Returns what was found, in words."""
    if library.platform != platform:
        raise Wrong(f"it must be for {platform}, and is for {library.platform}")
    foreign = [name for name in library.needs if not OURS[platform.split("-")[0]].fullmatch(name)]
    if foreign:
        raise Wrong(f"it must need the system alone, and needs {foreign}")
    missing = sorted(set(exports) - set(library.exports))
    if missing:
        raise Wrong(f"it does not export {missing}")
    if not library.stripped:
        raise Wrong("it must be stripped")
    if platform.startswith("macos") and "signed ad hoc" not in library.notes and platform.endswith("aarch64"):
        raise Wrong("it has no signature, without which Apple silicon loads nothing")
    about = ", ".join([*library.notes, f"{len(library.exports)} exports"])
    return f"{platform}, needs {', '.join(library.needs)}; {about}"


def runs_on(library: Library, oldest: str) -> None:
    """Checks that the library asks for this C library or system, or for an older one."""
    name, version = oldest.split(" ")
    asked = [note.split(" ")[1] for note in library.notes if note.startswith(f"{name} ")]
    if not asked or [int(part) for part in asked[0].split(".")] > [int(part) for part in version.split(".")]:
        raise Wrong(f"it must run on {oldest}, and asks for {asked}")


def main() -> None:
    """Checks one library."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--platform", required=True)
    parser.add_argument("--exports", nargs="*", default=[])
    parser.add_argument("--oldest", help="the newest C library or system that it may ask for, such as `glibc 2.17`")
    options = parser.parse_args()
    data = options.file.read_bytes()
    try:
        library = parsed(data)
        said = checked(library, options.platform, options.exports)
        if options.oldest:
            runs_on(library, options.oldest)
    except Wrong as wrong:
        sys.exit(f"{options.file}: {wrong}")
    print(f"   {len(data) / 1e6:.2f} MB; {said}")


if __name__ == "__main__":
    main()

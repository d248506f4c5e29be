#!/bin/bash
# Builds the static library that the Swift package links on Linux, and installs it where pkg-config finds it.
#
#   scripts/linux.sh [prefix]               /usr/local by default
#
# TIDEGATE_ARCHIVE names a library that has been built already.
set -euo pipefail
prefix="$(mkdir -p "${1:-/usr/local}" && cd "${1:-/usr/local}" && pwd)"
cd "$(dirname "$0")/../../.."
archive="${TIDEGATE_ARCHIVE:-${CARGO_TARGET_DIR:-target}/release/libtidegate_uniffi.a}"
[ -n "${TIDEGATE_ARCHIVE:-}" ] || cargo build --release -p tidegate-uniffi
version="$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)"
mkdir -p "$prefix/lib/pkgconfig"
cp "$archive" "$prefix/lib/libtidegate_uniffi.a"
cat > "$prefix/lib/pkgconfig/tidegate.pc" <<END
prefix=$prefix
libdir=\${prefix}/lib

Name: tidegate
Description: The engine of Tidegate, which its Swift package links
Version: $version
Libs: -L\${libdir} -ltidegate_uniffi -lpthread -ldl -lm
END
echo "installed $prefix/lib/pkgconfig/tidegate.pc; if that is not in pkg-config's path: export PKG_CONFIG_PATH=$prefix/lib/pkgconfig"

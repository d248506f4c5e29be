#!/bin/bash
# Makes Tidegate.xcframework and its checksum, on a Mac with Xcode and rustup. NOT RUN so far: no Mac was at hand.
#
#   scripts/xcframework.sh [folder]         build/ by default
#
# A static library for each platform, with the headers and the module map that Linux uses too. They are in a folder of their own, because
# Xcode copies the headers of all frameworks into one folder, where two module maps would collide. The package's manifest at the root of
# the repository names the result; its checksum is known only when it can be fetched, so the tag comes after the upload.
set -euo pipefail
cd "$(dirname "$0")/.."
out="${1:-build}"
root="$(git rev-parse --show-toplevel)"
target="${CARGO_TARGET_DIR:-$root/target}"
ios=aarch64-apple-ios
simulator="aarch64-apple-ios-sim x86_64-apple-ios"
mac="aarch64-apple-darwin x86_64-apple-darwin"

rm -rf "$out"
mkdir -p "$out/headers/TidegateNativeFFI" "$out/ios" "$out/simulator" "$out/mac"
(cd "$root" && cargo build -p tidegate-uniffi && cargo run -p tidegate-bindgen -- "$target/debug/libtidegate_uniffi.a")
cp Sources/TidegateNativeFFI/*.h Sources/TidegateNativeFFI/module.modulemap "$out/headers/TidegateNativeFFI/"

for triple in $ios $simulator $mac; do
    rustup target add "$triple"
    (cd "$root" && cargo build --release -p tidegate-uniffi --target "$triple")
done
libraries() { for triple in "$@"; do echo "$target/$triple/release/libtidegate_uniffi.a"; done; }
# shellcheck disable=SC2046,SC2086 # lists of paths without blanks
{
    cp $(libraries $ios) "$out/ios/libtidegate_uniffi.a"
    lipo -create $(libraries $simulator) -output "$out/simulator/libtidegate_uniffi.a"
    lipo -create $(libraries $mac) -output "$out/mac/libtidegate_uniffi.a"
}
xcodebuild -create-xcframework \
    -library "$out/ios/libtidegate_uniffi.a" -headers "$out/headers" \
    -library "$out/simulator/libtidegate_uniffi.a" -headers "$out/headers" \
    -library "$out/mac/libtidegate_uniffi.a" -headers "$out/headers" \
    -output "$out/Tidegate.xcframework"
(cd "$out" && ditto -c -k --keepParent Tidegate.xcframework Tidegate.xcframework.zip)
swift package compute-checksum "$out/Tidegate.xcframework.zip"

// swift-tools-version: 6.0
// The package as users get it. A tag of Swift's has the sources that uniffi generates, and the address of the framework; the main branch
// has neither (RELEASING.md). To work on the package, use bindings-uniffi/swift/Package.swift.
import PackageDescription

let swift = "bindings-uniffi/swift/Sources"

#if os(Linux)
// A binary target of a static library needs Swift 6.2 on Linux. Before, pkg-config finds the library (bindings-uniffi/swift/scripts/linux.sh).
let native: Target = .systemLibrary(name: "TidegateNativeFFI", path: "\(swift)/TidegateNativeFFI", pkgConfig: "tidegate")
let (resources, left): ([Resource], [String]) = ([], ["PrivacyInfo.xcprivacy"])
#else
// Filled in by a release. Without an address it is the framework that bindings-uniffi/swift/scripts/xcframework.sh has made.
let framework = (url: "", checksum: "")
let native: Target =
    framework.url.isEmpty
    ? .binaryTarget(name: "TidegateNativeFFI", path: "bindings-uniffi/swift/build/Tidegate.xcframework")
    : .binaryTarget(name: "TidegateNativeFFI", url: framework.url, checksum: framework.checksum)
let (resources, left): ([Resource], [String]) = ([.copy("PrivacyInfo.xcprivacy")], [])
#endif

let package = Package(
    name: "tidegate",
    // `Clock` and `Duration` are from these versions on.
    platforms: [.macOS(.v13), .iOS(.v16), .tvOS(.v16), .watchOS(.v9), .visionOS(.v1)],
    products: [
        .library(name: "Tidegate", targets: ["Tidegate"]),
        .library(name: "TidegateTesting", targets: ["TidegateTesting"]),
    ],
    targets: [
        native,
        .target(
            name: "TidegateNative",
            dependencies: ["TidegateNativeFFI"],
            path: "\(swift)/TidegateNative",
            swiftSettings: [.swiftLanguageMode(.v5)]
        ),
        .target(
            name: "Tidegate", dependencies: ["TidegateNative", "TidegateNativeFFI"], path: "\(swift)/Tidegate", exclude: left,
            resources: resources),
        .target(name: "TidegateTesting", dependencies: ["Tidegate"], path: "\(swift)/TidegateTesting"),
    ],
    swiftLanguageModes: [.v6]
)

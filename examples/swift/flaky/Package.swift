// swift-tools-version: 6.0
import PackageDescription

let package = Package(
    name: "flaky",
    platforms: [.macOS(.v13)],
    dependencies: [.package(path: "../../../bindings-uniffi/swift")],
    targets: [
        .executableTarget(name: "flaky", dependencies: [.product(name: "Tidegate", package: "swift")])
    ],
    swiftLanguageModes: [.v6]
)

import Foundation
import Testing

/// What the package says of itself to Apple's stores.
@Suite struct PackageTests {
    private static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// What of Apple's list of APIs that need a reason could stand in sources, and the category that it needs.
    private static let listed = [
        ("SystemBootTime", "clock_gettime|mach_absolute_time|mach_continuous_time|systemUptime"),
        ("UserDefaults", "UserDefaults|NSUserDefaults"),
        ("FileTimestamp", "creationDate|modificationDate|contentModificationDate|fstatat|getattrlist|\\bf?l?stat\\("),
        ("DiskSpace", "volumeAvailableCapacity|systemFreeSize|statf?vfs|statfs"),
        ("ActiveKeyboards", "activeInputModes"),
    ]

    /// The package that users get has the products, platforms and targets of the one that is tested here, and nothing that a dependency
    /// may not have.
    @Test func usersGetThePackageThatIsTested() throws {
        let repository = Self.root.deletingLastPathComponent().deletingLastPathComponent()
        let users = try String(contentsOf: repository.appendingPathComponent("Package.swift"), encoding: .utf8)
        let ours = try String(contentsOf: Self.root.appendingPathComponent("Package.swift"), encoding: .utf8)
        #expect(!users.contains("unsafeFlags") && users.contains("pkgConfig: \"tidegate\""))
        for line in ours.split(separator: "\n") where line.contains("platforms:") || line.contains(".library(") {
            #expect(users.contains(line), "\(line)")
        }
        for target in ["TidegateNativeFFI", "TidegateNative", "Tidegate", "TidegateTesting"] {
            #expect(users.contains("name: \"\(target)\""), "\(target)")
        }
    }

    private struct Manifest: Decodable {
        struct API: Decodable {
            let NSPrivacyAccessedAPIType: String
            let NSPrivacyAccessedAPITypeReasons: [String]
        }

        let NSPrivacyTracking: Bool
        let NSPrivacyTrackingDomains: [String]
        let NSPrivacyCollectedDataTypes: [String]
        let NSPrivacyAccessedAPITypes: [API]
    }

    @Test func thePrivacyManifestSaysWhatTheSourcesUse() throws {
        let file = Self.root.appendingPathComponent("Sources/Tidegate/PrivacyInfo.xcprivacy")
        let manifest = try PropertyListDecoder().decode(Manifest.self, from: Data(contentsOf: file))
        #expect(!manifest.NSPrivacyTracking && manifest.NSPrivacyTrackingDomains.isEmpty)
        #expect(manifest.NSPrivacyCollectedDataTypes.isEmpty)
        let declared = manifest.NSPrivacyAccessedAPITypes
        #expect(declared.allSatisfy { !$0.NSPrivacyAccessedAPITypeReasons.isEmpty })
        #expect(declared.first?.NSPrivacyAccessedAPITypeReasons == ["35F9.1"])

        let sources = Self.root.appendingPathComponent("Sources")
        let files = try #require(FileManager.default.enumerator(at: sources, includingPropertiesForKeys: nil))
        var text = ""
        for case let url as URL in files where url.pathExtension == "swift" {
            text += try String(contentsOf: url, encoding: .utf8)
        }
        #expect(text.count > 100_000)
        var used: [String] = []
        for (category, names) in Self.listed where text.range(of: names, options: .regularExpression) != nil {
            used.append("NSPrivacyAccessedAPICategory" + category)
        }
        #expect(used == declared.map(\.NSPrivacyAccessedAPIType))
        let package = try String(contentsOf: Self.root.appendingPathComponent("Package.swift"), encoding: .utf8)
        #expect(package.contains("PrivacyInfo.xcprivacy") && package.contains(".copy(manifest)"))
    }
}

package dev.tidegate

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.File

/** What the jars ask of their users, and say of themselves. */
class PublishedTest {
    private val parent = File("../pom.xml").readText()

    private fun property(name: String): String = parent.substringAfter("<$name>").substringBefore("</$name>")

    private val guide = File("../../../docs/kotlin.md").readText().replace(Regex("\\s+"), " ")

    /** The oldest Kotlin that the guide names. */
    private val oldest = Regex("Kotlin (\\d+\\.\\d+) if you use Kotlin").find(guide)?.groupValues?.get(1)

    /** A compiler refuses metadata that is too new for it, and a newer standard library would be forced on its program (finding K6). */
    @Test
    fun `the oldest Kotlin of the guide can use the classes`() {
        val metadata = Policy::class.java.getAnnotation(Metadata::class.java).metadataVersion
        assertEquals(oldest, metadata.take(2).joinToString("."))
        assertEquals(oldest, property("kotlin.stdlib").substringBeforeLast("."))
    }

    /** Finding K6: the check itself runs in every build, before the tests. */
    @Test
    fun `the classes are compared with Android 8`() {
        val ours = File("pom.xml").readText()
        assertTrue("<artifactId>gummy-bears-api-26</artifactId>" in ours && "<goal>check</goal>" in ours)
    }

    /** Finding K7. */
    @Test
    fun `the jars name their module and ask for native access`() {
        val entries = listOf("<Automatic-Module-Name>\${module.name}</Automatic-Module-Name>", "<Enable-Native-Access>ALL-UNNAMED</Enable-Native-Access>")
        assertEquals(emptyList<String>(), entries.filter { it !in parent })
        val names = listOf("pom.xml", "../native/pom.xml").map { File(it).readText().substringAfter("<module.name>").substringBefore("<") }
        assertEquals(listOf("dev.tidegate", "dev.tidegate.engine"), names)
    }

    /** Finding K7. */
    @Test
    fun `the guide says how to install, and what it needs`() {
        val wanted = listOf("dev.tidegate:tidegate:", "JVM ${property("java.version")}", "API 26", "--enable-native-access=ALL-UNNAMED", "mvn -f bindings-uniffi/kotlin/pom.xml -DskipTests install")
        assertEquals(emptyList<String>(), wanted.filter { it !in guide })
    }
}

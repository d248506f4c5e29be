package dev.tidegate

import dev.tidegate.ktor.Tidegate
import io.ktor.client.HttpClient
import io.ktor.client.engine.mock.MockEngine
import io.ktor.client.engine.mock.respond
import io.ktor.client.request.get
import io.ktor.client.statement.bodyAsText
import io.ktor.http.HttpStatusCode
import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import org.junit.jupiter.api.io.TempDir
import proguard.Configuration
import proguard.ConfigurationParser
import proguard.ProGuard
import java.io.File
import java.io.IOException
import java.util.concurrent.TimeUnit
import java.util.jar.JarFile

/** A program of one policy, to be shrunk: what it says is compared. */
object Minified {
    @JvmStatic
    fun main(arguments: Array<String>) {
        val engine = Engine(seed = 7)
        val policy = Policy.load("[policy.p.retry]\nmax_attempts = 3\n[policy.p.retry.backoff]\nbase = '1ms'\njitter = 'none'\n", engine = engine).getValue("p")
        val seen = mutableListOf<String>()
        engine.listen { seen += it.kind }
        val answer = runBlocking { policy.run { if (it.number < 3) throw IOException("lost") else "attempt ${it.number}" } }
        val own = policy("q", engine) { retry { maxAttempts = 2; backoff { jitter = BackoffJitter.NONE } }; bulkhead { maxConcurrency = 1 } }
        val error = runCatching { own.call { throw IllegalStateException("no") } }.exceptionOrNull()
        val mistake = runCatching { policy { retry { maxAttempts = 0 } } }.exceptionOrNull()
        val bucket = dev.tidegate.parts.TokenBucket(kotlin.time.Duration.ZERO) { permits = 1; per = kotlin.time.Duration.parse("1s") }
        println(listOf(answer, seen.size, error?.message, error?.report?.reason?.word, engine.snapshot().live, bucket.tryTake(kotlin.time.Duration.ZERO)).joinToString("|"))
        println(mistake?.message)
        println("ktor: ${runBlocking { requests(engine) }}")
    }

    /** Three requests through one slot, whose bodies Ktor has in memory. */
    private suspend fun requests(engine: Engine): String {
        val narrow = policy("ktor", engine) { deadline = kotlin.time.Duration.parse("10s"); bulkhead { maxConcurrency = 1 }; retry { maxAttempts = 2; backoff { jitter = BackoffJitter.NONE } } }
        var sent = 0
        val client = HttpClient(MockEngine { respond("answer ${++sent}", if (sent == 1) HttpStatusCode.ServiceUnavailable else HttpStatusCode.OK) }) { install(Tidegate) { policy = narrow } }
        val answers = List(3) { runCatching { client.get("http://localhost/x").bodyAsText() }.getOrElse { it.message } }
        client.close()
        return "$answers ${engine.snapshot().live}"
    }
}

/**
 * A minified build with nothing but the rules in the jars. R8 is in no registry that this repository builds from; ProGuard reads
 * the same rules, and shrinks and renames as R8 does. Its optimiser is left out: kotlinx.coroutines do not survive it.
 */
class MinifiedTest {
    private fun path() = System.getProperty("java.class.path").split(File.pathSeparator).map(::File).filter { it.exists() }

    /** Files with keep rules for consumers, of folders and jars. */
    private fun rules(of: File): List<String> = when {
        of.isDirectory -> of.resolve("META-INF/proguard").listFiles().orEmpty().map { it.readText() }
        else -> JarFile(of).use { jar ->
            jar.entries().asSequence().filter { it.name.startsWith("META-INF/proguard/") && !it.isDirectory }
                .map { jar.getInputStream(it).reader().readText() }.toList()
        }
    }

    private fun run(vararg command: String): String {
        val java = File(System.getProperty("java.home"), "bin/java").path
        val process = ProcessBuilder(java, *command).redirectErrorStream(true).start()
        val text = process.inputStream.bufferedReader().readText()
        assertTrue(process.waitFor(60, TimeUnit.SECONDS), "it hangs")
        assertEquals(0, process.exitValue(), text)
        return text.lines().filter { !it.startsWith("SLF4J") }.joinToString("\n")
    }

    @Test
    @Timeout(180)
    fun `a minified program does what it did before`(@TempDir folder: File) {
        val wanted = listOf(
            "tidegate", "tidegate-native", "native", "classes", "kotlin-stdlib", "kotlinx-coroutines-core", "jna", "ktor", "kotlinx-io", "kotlinx-serialization", "kotlinx-coroutines-slf4j", "slf4j-api",
        )
        val inputs = path().filter { file -> wanted.any { file.name == it || (file.name.startsWith("$it-") && file.extension == "jar") } }
        val tests = path().single { it.name == "test-classes" }
        val minified = folder.resolve("minified.jar")
        // A class that is missing fails it, as it fails R8, but for annotations, which R8 does not miss, and what Android has.
        val lines = mutableListOf("-dontnote", "-dontoptimize", "-dontwarn org.jetbrains.annotations.**", "-dontwarn android.annotation.SuppressLint")
        for (module in listOf("java.base", "java.logging", "java.instrument", "java.management", "java.naming", "jdk.unsupported")) {
            lines += "-libraryjars <java.home>/jmods/$module.jmod(!**.jar;!module-info.class)"
        }
        lines += "-injars \"$tests\"(dev/tidegate/Minified.class,dev/tidegate/Minified\$*.class)"
        for (input in inputs) lines += "-injars \"$input\"(!META-INF/versions/**,!META-INF/MANIFEST.MF,!module-info.class)"
        lines += "-outjars \"$minified\""
        lines += "-keep class dev.tidegate.Minified { public static void main(java.lang.String[]); }"
        lines += inputs.flatMap(::rules)
        val configuration = Configuration()
        ConfigurationParser(lines.joinToString("\n"), "rules", folder, System.getProperties()).use { it.parse(configuration) }
        ProGuard(configuration).execute()

        val classes = JarFile(minified).use { jar -> jar.entries().asSequence().map { it.name }.filter { it.endsWith(".class") }.toList() }
        assertFalse("dev/tidegate/Core.class" in classes, "nothing has been renamed")
        assertTrue("dev/tidegate/internal/Native.class" in classes)
        val before = run("-cp", System.getProperty("java.class.path"), "dev.tidegate.Minified")
        assertTrue(before.startsWith("attempt 3|"), before)
        assertTrue("ktor: [answer 2, answer 3, answer 4] 0" in before, before)
        assertEquals(before, run("-cp", minified.path, "dev.tidegate.Minified"))
    }
}

package dev.tidegate

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import org.junit.jupiter.api.io.TempDir
import java.io.File
import java.io.IOException
import java.lang.ref.WeakReference
import java.net.URLClassLoader
import java.util.concurrent.CompletableFuture
import java.util.concurrent.TimeUnit

/** A program that asks for the library twice, and says what came of it. */
object Loaded {
    @JvmStatic
    fun main(arguments: Array<String>) {
        repeat(2) { println(runCatching { work() }.fold({ it }, { "${it.javaClass.simpleName}: ${it.message}" })) }
        println(runCatching { dev.tidegate.parts.P2Quantile(0.5); "a part" }.fold({ it }, { "${it.javaClass.simpleName}: ${it.message}" }))
    }

    @JvmStatic
    fun work(): String {
        val policy = policy(engine = Engine(seed = 7)) { retry { maxAttempts = 2 } }
        return policy.call { if (it.number == 1) throw IOException("lost") else "attempt ${it.number}" }
    }
}

/** A program of one policy and one call, without a lambda: the start that `bench/jvm/start.py` measures. */
object Started {
    private object Settings : Configure<PolicyOptions> {
        override fun PolicyOptions.configure() = retry(Retries)
    }

    private object Retries : Configure<Retry> {
        override fun Retry.configure() {
            maxAttempts = 3
        }
    }

    private object Answer : Work<String> {
        override fun attempt(attempt: Attempt): String = "an answer"
    }

    @JvmStatic
    fun main(arguments: Array<String>) = println(policy("started", configure = Settings).call(Answer))
}

/** Where the native library comes from, and what is said where it does not. */
@Timeout(120)
class LoadingTest {
    private fun run(vararg options: String, program: String = "dev.tidegate.Loaded"): List<String> {
        val java = File(System.getProperty("java.home"), "bin/java").path
        val process = ProcessBuilder(java, *options, "-cp", System.getProperty("java.class.path"), program).redirectErrorStream(true).start()
        val text = process.inputStream.bufferedReader().readText()
        assertTrue(process.waitFor(60, TimeUnit.SECONDS), "it hangs")
        assertEquals(0, process.exitValue(), text)
        return text.lines().filter { it.isNotEmpty() && " VM warning: " !in it && "execstack" !in it }
    }

    @Test
    fun `a platform that has no library is told each time`() {
        val told = run("-Dos.arch=riscv64", "-Dos.name=FreeBSD")
        assertEquals(1, told.toSet().size, "$told")
        val expected = "UnsatisfiedLinkError: tidegate has no native library for freebsd-riscv64: no /dev/tidegate/native/freebsd-riscv64/"
        assertTrue(told[0].startsWith(expected) && "-Dtidegate.library=<path>" in told[0], told[0])
    }

    @Test
    fun `a library that does not load is told with its name and the reason`(@TempDir folder: File) {
        val wrong = folder.resolve("libtidegate_uniffi.so").apply { writeText("no library") }
        val told = run("-Dtidegate.library=$wrong")
        assertEquals(1, told.toSet().size, "$told")
        assertTrue(told[0].startsWith("UnsatisfiedLinkError: tidegate's native library does not load on linux-x86_64: $wrong"), told[0])
    }

    @Test
    fun `a program ends although it has an engine and calls that wait`() {
        assertEquals(listOf("attempt 2", "attempt 2", "a part"), run())
    }

    /** ADR 0063. Loading these classes is most of what a start costs, and none of them are needed. */
    @Test
    fun `a first call loads few classes, and none of Kotlin's functions for texts and collections`() {
        val told = run("-Xlog:class+load", program = "dev.tidegate.Started")
        assertTrue("an answer" in told, "$told")
        val loaded = told.mapNotNull { Regex("] ([\\w.$]+) source: (.*)").find(it)?.destructured?.let { (name, from) -> name to from } }
        val dear = listOf("kotlin.text.", "kotlin.collections.", "kotlin.time.TimeSource", "kotlin.reflect.", "kotlin.Lazy", "kotlinx.")
        assertEquals(emptyList<String>(), loaded.map { it.first }.filter { name -> dear.any(name::startsWith) })
        assertEquals(emptyList<String>(), loaded.map { it.first }.filter { "jna" in it }, "all crosses by JNI (ADR 0027)")
        val ours = loaded.map { it.first }.filter { it.startsWith("dev.tidegate.") && "Started" !in it }
        assertTrue(ours.size in 30..75, "${ours.size} classes of ours: $ours")
        assertEquals(emptyList<String>(), told.filter { "Lambda" in it && "dev.tidegate" in it }, "a lambda that the JVM makes a class of")
    }

    /** Its classes are its own. */
    private class Apart(path: List<File>) : URLClassLoader(path.map { it.toURI().toURL() }.toTypedArray(), getPlatformClassLoader())

    private val path = System.getProperty("java.class.path").split(File.pathSeparator).map(::File)

    @Test
    fun `two class loaders have a library each`() {
        val apart = List(2) { Apart(path) }
        val answers = apart.map { loader ->
            CompletableFuture.supplyAsync { loader.loadClass("dev.tidegate.Loaded").getMethod("work").invoke(null) }
        }
        assertEquals(listOf("attempt 2", "attempt 2"), answers.map { it.get(30, TimeUnit.SECONDS) })
        assertEquals("attempt 2", Loaded.work())
        apart.forEach { it.close() }
    }

    /** Makes calls with classes of its own on this thread, which goes on, and lets go of them. */
    private fun used(): WeakReference<ClassLoader> {
        val loader = Apart(path)
        assertEquals("attempt 2", loader.loadClass("dev.tidegate.Loaded").getMethod("work").invoke(null))
        loader.close()
        return WeakReference(loader)
    }

    @Test
    fun `a class loader is collected with the engines of its classes`() {
        val folders = { File(System.getProperty("java.io.tmpdir")).list().orEmpty().filter { it.startsWith("tidegate") && it.drop(8).all(Char::isDigit) }.toSet() }
        val before = folders()
        val threads = Thread.getAllStackTraces().keys
        val loader = used()
        val started = Thread.getAllStackTraces().keys - threads
        assertEquals(emptyList<String>(), started.filter { it.contextClassLoader === loader.get() }.map { it.name }, "threads that keep it")
        assertEquals(emptySet<String>(), folders() - before, "files of the library")
        var rounds = 0
        while (loader.get() != null && rounds++ < 200) {
            System.gc()
            Thread.sleep(50)
        }
        assertNull(loader.get(), "something keeps the class loader")
    }
}

package dev.tidegate.internal

import dev.tidegate.ffi.Engine
import dev.tidegate.ffi.Interface
import java.io.File
import java.io.FileOutputStream
import java.io.InputStream

/**
 * Functions that run for every call, by JNI with numbers only (`bindings-uniffi/src/jni.rs`). This object references the engine, so the
 * engine cannot be collected while a method runs.
 */
internal class Native(val engine: Engine) {
    /** Handle of the engine; valid as long as this object is reachable. */
    val handle: Long = engine.handle().toLong()

    /**
     * Begins a call and returns its id. If the first step is not just "start attempt 1", the bits of the id are inverted, and the step is
     * in `out[0]`.
     */
    external fun begin(
        handle: Long,
        route: Long,
        flags: Long,
        remaining: Long,
        parent: Long,
        target: Long,
        now: Long,
        out: LongArray,
    ): Long

    /** Reports an event of a call and returns its next step. */
    external fun on(handle: Long, call: Long, event: Long, now: Long): Long

    /** Takes woken calls out, as many as fit, and returns their number. */
    external fun woken(handle: Long, out: LongArray): Int

    /** Makes the engine read the clock itself wherever `now` is [NOW]. [ns] is what the clock says now. False if that is of no use. */
    external fun clock(handle: Long, ns: Long): Boolean

    /** Whether there are events that a listener has subscribed to. */
    external fun hasEvents(handle: Long): Boolean

    /** Takes single durations out, four numbers each (policy, route, index of the family, microseconds), and returns their number. */
    external fun timings(handle: Long, out: LongArray): Int

    /** Outcome of an HTTP response, at its bit position in a word; [headers] are name, NUL, value, NUL, and so on. */
    external fun classify(handle: Long, policy: Int, status: Int, headers: ByteArray, wall: Long): Long

    companion object {
        /** Value of `now` that makes the engine read the clock itself. */
        const val NOW = -1L

        /** Loads the library and makes an engine. Not in a class initialiser: once one has failed, Java reports later only that it has. */
        fun make(seed: Long, maxRoutes: Int, journal: Boolean, history: Int): Native =
            Library.loaded { Native(Engine(seed.toULong(), maxRoutes.toUInt(), journal, history.toUInt())) }
    }
}

/** Finds and loads the native library. */
internal object Library {
    private const val NAME = "tidegate_uniffi"
    private const val HINT = "-Dtidegate.library=<path> names another (docs/kotlin.md, \"Packaging\")"

    @Volatile private var loaded = false

    /** Runs [work] with the library loaded. */
    inline fun <T> loaded(work: () -> T): T {
        load()
        return work()
    }

    fun load() {
        if (!loaded) loadOnce()
    }

    private fun loadOnce(): Unit = synchronized(this) { if (!loaded) loadNow() }

    private fun loadNow() {
        val given = System.getProperty("tidegate.library")
        when {
            given != null -> load(given)
            isAndroid() -> System.loadLibrary(NAME) // the AAR has it in jni/<abi>
            else -> unpacked { load(it.path) }
        }
        Interface.check()
        loaded = true
    }

    private fun load(path: String) = try {
        System.load(path)
    } catch (error: UnsatisfiedLinkError) {
        throw UnsatisfiedLinkError("tidegate's native library does not load on ${platform()}: ${error.message}; $HINT").initCause(error)
    }

    fun isAndroid(): Boolean = System.getProperty("java.vm.name") == "Dalvik"

    private fun platform(): String {
        val os = System.getProperty("os.name").lowercase()
        val system = when {
            os.begins("linux") -> "linux"
            os.begins("mac") -> "macos"
            os.begins("windows") -> "windows"
            else -> os.replace(' ', '-')
        }
        val machine = when (val arch = System.getProperty("os.arch")) {
            "amd64", "x86_64" -> "x86_64"
            "aarch64", "arm64" -> "aarch64"
            else -> arch
        }
        return "$system-$machine"
    }

    /** Unpacks this platform's library from the jar and runs [use] with it. Its file is removed afterwards, if the system releases it. */
    private inline fun unpacked(use: (File) -> Unit) {
        val file = System.mapLibraryName(NAME)
        val resource = "/dev/tidegate/native/${platform()}/$file"
        val stream = Library::class.java.getResourceAsStream(resource)
            ?: throw UnsatisfiedLinkError("tidegate has no native library for ${platform()}: no $resource in its jar; $HINT")
        val folder = fresh()
        val path = File(folder, file)
        try {
            check(path.createNewFile()) { "somebody else has written $path" }
            write(stream, path)
            use(path)
        } finally {
            // Windows locks the file of a loaded library, so there it is removed when the process ends.
            if (!path.delete()) for (made in listOf(folder, path)) made.deleteOnExit()
            folder.delete()
        }
    }

    /** Writes a stream into a file. Kotlin's functions for both would be loaded for this alone. */
    private fun write(from: InputStream, to: File) {
        try {
            val file = FileOutputStream(to)
            try {
                val piece = ByteArray(1 shl 16)
                while (true) {
                    val count = from.read(piece)
                    if (count < 0) break
                    file.write(piece, 0, count)
                }
            } finally {
                file.close()
            }
        } finally {
            from.close()
        }
    }

    /** Makes a private folder. `Files` would spend a tenth of a start on it, because it draws a secure random number for the name. */
    private fun fresh(): File {
        val all = File(System.getProperty("java.io.tmpdir")).absoluteFile
        repeat(1000) {
            val folder = File(all, "tidegate${System.nanoTime()}")
            if (folder.mkdir()) {
                folder.setWritable(false, false)
                folder.setWritable(true, true)
                return folder
            }
        }
        throw UnsatisfiedLinkError("tidegate cannot make a folder for its native library in $all; $HINT")
    }
}

/**
 * Whether a text begins with another. Kotlin's own `startsWith` and its like are in a class with thirteen parents; to load them takes a tenth of
 * a start.
 */
@Suppress("PLATFORM_CLASS_MAPPED_TO_KOTLIN")
internal fun String.begins(with: String): Boolean = (this as java.lang.String).startsWith(with)

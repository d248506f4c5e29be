package dev.tidegate.internal

import dev.tidegate.ffi.Engine
import dev.tidegate.ffi.Interface
import java.io.File

/**
 * What happens to every call, as numbers, by JNI (`bindings-uniffi/src/jni.rs`). It keeps the engine, which so cannot be
 * collected while a method runs.
 */
internal class Native(val engine: Engine) {
    /** What the engine is known by, as long as this object is kept. */
    val handle: Long = engine.handle().toLong()

    /** The call's id; where its first step is not just "start attempt 1", its bits are inverted, and the step is `out[0]`. */
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

    /** The next step of a call. */
    external fun on(handle: Long, call: Long, event: Long, now: Long): Long

    /** Takes woken calls out, as many as fit: how many. */
    external fun woken(handle: Long, out: LongArray): Int

    /** Reads the clock that says [ns] now, from then on, wherever `now` is [NOW]; false where that is of no use. */
    external fun clock(handle: Long, ns: Long): Boolean

    /** Are there events that somebody who listens wants to hear? */
    external fun told(handle: Long): Boolean

    /** Takes single spans out, four numbers each (policy, route, place of the family, microseconds): how many. */
    external fun timings(handle: Long, out: LongArray): Int

    /** The outcome of an HTTP answer, at its place in a word; [headers] are name, NUL, value, NUL, and so on. */
    external fun classify(handle: Long, policy: Int, status: Int, headers: ByteArray, wall: Long): Long

    companion object {
        /** In the place of the time: the engine reads the clock itself. */
        const val NOW = -1L

        /** Not in an initialiser: of a class that has failed once Java says later only that it has. */
        fun make(seed: Long, maxRoutes: Int, journal: Boolean): Native =
            Library.loaded { Native(Engine(seed.toULong(), maxRoutes.toUInt(), journal)) }
    }
}

/** Where the native library comes from. */
internal object Library {
    private const val NAME = "tidegate_uniffi"
    private const val HINT = "-Dtidegate.library=<path> names another (docs/kotlin.md, \"Packaging\")"

    @Volatile private var loaded = false

    /** Runs what asks the library, which is there then. */
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
            "linux" in os -> "linux"
            "mac" in os -> "macos"
            "windows" in os -> "windows"
            else -> os.replace(' ', '-')
        }
        val machine = when (val arch = System.getProperty("os.arch")) {
            "amd64", "x86_64" -> "x86_64"
            "aarch64", "arm64" -> "aarch64"
            else -> arch
        }
        return "$system-$machine"
    }

    /** Runs [use] with the library of this platform, out of the jar; its file is removed then, where the system lets go of it. */
    private inline fun unpacked(use: (File) -> Unit) {
        val file = System.mapLibraryName(NAME)
        val resource = "/dev/tidegate/native/${platform()}/$file"
        val stream = Library::class.java.getResourceAsStream(resource)
            ?: throw UnsatisfiedLinkError("tidegate has no native library for ${platform()}: no $resource in its jar; $HINT")
        val folder = fresh()
        val path = File(folder, file)
        try {
            check(path.createNewFile()) { "somebody else has written $path" }
            stream.use { from -> path.outputStream().use { from.copyTo(it, 1 shl 16) } }
            use(path)
        } finally {
            // Windows keeps the file of a library that is in use: it goes with the process there.
            if (!path.delete()) for (made in listOf(folder, path)) made.deleteOnExit()
            folder.delete()
        }
    }

    /** A folder that is ours alone. What `Files` would do for that costs a tenth of a start: a secure random number for its name. */
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

package dev.tidegate.ffi

import java.io.ByteArrayOutputStream
import java.io.DataOutputStream
import java.lang.ref.PhantomReference
import java.lang.ref.ReferenceQueue
import java.nio.Buffer
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets
import java.util.concurrent.ConcurrentHashMap

// Base of the generated half (`Ffi.kt`, written by bindings-uniffi/bindgen): numbers cross by JNI as they are, everything else as bytes in
// uniffi's format.

/** The interface that the library was built from. */
internal object Interface {
    @JvmStatic external fun hash(): Long

    /** Checks the version, because a library of another version would misread the bytes. */
    fun check() {
        if (hash() != Ffi.HASH) throw UnsatisfiedLinkError("the native library is of another version of tidegate than its classes")
    }
}

/** Failure of the native library, made by JNI: the bytes of an error. */
internal class RustFailure(@JvmField val bytes: ByteArray) : RuntimeException(null, null, false, false)

/** Runs a call that may fail, and throws the decoded error. */
internal inline fun <T> failing(read: (ByteBuffer) -> Exception, call: () -> T): T = try {
    call()
} catch (failure: RustFailure) {
    throw read(ByteBuffer.wrap(failure.bytes))
}

/** Address of a Rust object, which its holder frees. */
internal class Raw(val pointer: Long)

/** A Rust object. It is freed some time after the last reference to this one is gone. */
internal abstract class Owned(raw: Raw, free: (Long) -> Unit) {
    val pointer: Long = raw.pointer

    init {
        Unreachable.free()
        Unreachable.kept += Grave(this, pointer, free)
    }
}

private class Grave(owner: Owned, private val pointer: Long, private val free: (Long) -> Unit) :
    PhantomReference<Owned>(owner, Unreachable.queue) {
    fun free() = free(pointer)
}

/**
 * Frees unreachable objects. It has no thread, because a thread would keep its class loader. Instead, making an object frees those that
 * have become unreachable before.
 */
private object Unreachable {
    val queue = ReferenceQueue<Owned>()
    val kept: MutableSet<Grave> = ConcurrentHashMap.newKeySet()

    fun free() {
        while (true) {
            val grave = queue.poll() as Grave? ?: return
            kept -= grave
            grave.free()
        }
    }
}

/** Bytes on their way to Rust. */
internal class Bytes(val array: ByteArrayOutputStream) : DataOutputStream(array) {
    fun bytes(value: ByteArray) {
        writeInt(value.size)
        write(value)
    }

    fun text(value: String) = bytes(value.utf8())

    inline fun <T> option(value: T?, write: (T) -> Unit) {
        writeByte(if (value == null) 0 else 1)
        if (value != null) write(value)
    }

    inline fun <T> list(values: List<T>, write: (T) -> Unit) {
        writeInt(values.size)
        for (value in values) write(value)
    }

    inline fun <K, V> map(values: Map<K, V>, write: (K, V) -> Unit) {
        writeInt(values.size)
        for ((key, value) in values) write(key, value)
    }
}

internal inline fun written(write: (Bytes) -> Unit): ByteArray {
    val array = ByteArrayOutputStream(64)
    write(Bytes(array))
    return array.toByteArray()
}

internal inline fun <T> lifted(bytes: ByteArray, read: (ByteBuffer) -> T): T = read(ByteBuffer.wrap(bytes))

/** The text in UTF-8. Kotlin's `encodeToByteArray` is in a class with thirteen parents, which a start does without. */
internal fun String.utf8(): ByteArray = toByteArray(StandardCharsets.UTF_8)

internal fun ByteBuffer.bytes(): ByteArray = ByteArray(getInt()).also { get(it) }

internal fun ByteBuffer.text(): String {
    val length = getInt()
    val text = String(array(), position(), length, StandardCharsets.UTF_8)
    (this as Buffer).position(position() + length) // before Android 9, ByteBuffer has no method `position` of its own
    return text
}

internal inline fun <T> ByteBuffer.option(read: () -> T): T? = if (get() == 0.toByte()) null else read()

internal inline fun <T> ByteBuffer.list(read: () -> T): List<T> {
    val count = getInt()
    val values = ArrayList<T>(count)
    repeat(count) { values += read() }
    return values
}

internal inline fun <K, V> ByteBuffer.map(key: () -> K, value: () -> V): Map<K, V> {
    val count = getInt()
    val values = LinkedHashMap<K, V>()
    repeat(count) { values[key()] = value() }
    return values
}

package dev.tidegate.internal

import dev.tidegate.Configure
import dev.tidegate.Facts
import dev.tidegate.Mistake
import dev.tidegate.PolicyException
import dev.tidegate.Pool
import dev.tidegate.ffi.Invalid
import dev.tidegate.ffi.Value
import dev.tidegate.ffi.keys
import kotlin.time.Duration
import kotlin.time.DurationUnit
import dev.tidegate.ffi.Pair as Setting

/** Settings as written, by dotted key. Defaults and ranges are not here but in core's one table of keys: core fills in what is left out. */
internal class Table {
    private val values = LinkedHashMap<String, Any>()
    private val touched = LinkedHashSet<String>()

    fun put(key: String, value: Any?) {
        if (value == null) values.remove(key) else values[key] = value
    }

    private fun <T> read(key: String): T? {
        @Suppress("UNCHECKED_CAST") // each key has one type, that of its generated property; a word is "none"
        return values[key]?.takeIf { it != dev.tidegate.Options.NONE } as T?
    }

    fun span(key: String): Duration? = read(key)

    fun count(key: String): Int? = read(key)

    fun real(key: String): Double? = read(key)

    fun flag(key: String): Boolean? = read(key)

    fun pool(key: String): Pool? = read(key)

    fun <E : Enum<E>> choice(key: String): E? = read(key)

    fun <T> list(key: String): List<T>? = read(key)

    fun <T> map(key: String): Map<String, T>? = read(key)

    /** Marks a component as present and writes the settings of its block. */
    fun <T> within(path: String, options: T, configure: Configure<T>) {
        touched += path
        with(configure) { options.configure() }
    }

    /** Settings as pairs for core, which checks them. */
    fun pairs(): List<Setting> {
        val pairs = ArrayList<Setting>()
        for ((key, value) in values) add(key, value, pairs)
        for (path in touched) {
            if (isSaid(path) || (values.containsKey("preset") && path in Facts.presetTables)) continue
            val (key, value) = Facts.presence.getValue(path)
            add(key, value, pairs)
        }
        return pairs
    }

    /** Whether there is a setting of this block. */
    private fun isSaid(path: String): Boolean {
        for (key in values.keys) if (key.begins("$path.")) return true
        return false
    }

    // Most settings are one value. Kotlin's functions for collections would be loaded for them alone.
    private fun add(key: String, value: Any, to: MutableList<Setting>) {
        when (value) {
            is List<*> -> value.ifEmpty { listOf("") }.mapTo(to) { Setting(key, plain(it!!)) }
            is Map<*, *> -> value.map { (name, base) -> "$name=${(base as Enum<*>).name.lowercase()}" }
                .ifEmpty { listOf("") }.mapTo(to) { Setting(key, plain(it)) }
            else -> to.add(Setting(key, plain(value)))
        }
    }

    private fun plain(value: Any): Value = when (value) {
        is Duration -> Value.Number(value.toDouble(DurationUnit.MICROSECONDS))
        is Boolean -> Value.Number(if (value) 1.0 else 0.0)
        is Number -> Value.Number(value.toDouble())
        is Enum<*> -> Value.Word(value.name.lowercase())
        is Pool -> Value.Word(value.name)
        else -> Value.Word(value.toString())
    }
}

private val names: Set<String> by lazy { Library.loaded(::keys).flatMap { it.path.split('.') }.filter { '_' in it }.toSet() }
private val snake = Regex("\\b[a-z]+(?:_[a-z]+)+\\b")

/** Replaces names such as `max_attempts` in a text by Kotlin's. */
internal fun camel(text: String): String = snake.replace(text) { found ->
    if (found.value !in names) return@replace found.value
    found.value.split('_').reduce { name, word -> name + word.replaceFirstChar(Char::uppercaseChar) }
}

/** Runs code that core checks. Mistakes are reported in the names that the author has used. */
internal inline fun <T> checked(name: (String) -> String, work: () -> T): T = try {
    work()
} catch (invalid: Invalid.Settings) {
    throw PolicyException(invalid.mistakes.map { Mistake(name(it.key), it.value, name(it.rule)) })
}

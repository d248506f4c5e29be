package dev.tidegate

import dev.tidegate.ffi.Document
import dev.tidegate.ffi.Loaded
import dev.tidegate.internal.Library
import dev.tidegate.internal.checked

/**
 * What [Policies.reload] has done. Names are as the document has them: `policy.payments`, `pool.db`.
 *
 * @property digest What the document says now, as [Policies.digest].
 * @property added What only the newer document has.
 * @property changed What both have, with other settings.
 * @property removed What only the older document has.
 */
public class Reloaded internal constructor(
    public val digest: String,
    public val added: List<String>,
    public val changed: List<String>,
    public val removed: List<String>,
) {
    override fun toString(): String = "Reloaded(digest=$digest, added=$added, changed=$changed, removed=$removed)"
}

/** The policies of a document, by name: a map that [reload] changes. Thread-safe. Made by [Policy.load]. */
public class Policies internal constructor(text: String, json: Boolean, private val engine: Engine, private val classify: Classify?) :
    AbstractMap<String, Policy>() {
    private class State(val document: Document, val policies: Map<String, Policy>, val pools: Map<String, Pool>)

    @Volatile private var state: State

    init {
        val document = read(text, json)
        state = taken(document, checked(SAME) { engine.load(document) }, null)
    }

    override val entries: Set<Map.Entry<String, Policy>> get() = state.policies.entries

    /** The document's pools, by name. */
    public val pools: Map<String, Pool> get() = state.pools

    /**
     * What the document says, as 16 hexadecimal digits. Processes that report the same digest go by the same settings, in whatever
     * language and form.
     */
    public val digest: String get() = state.document.digest()

    /**
     * Goes over to a newer version of the document while its policies are in use: all of it, or nothing.
     *
     * Policies and pools of both versions keep what they have counted, and calls in flight finish under the settings that they
     * began with. A policy that the newer version does not have keeps its settings, for the code that still has it.
     *
     * @param document Its text, in TOML, or in JSON where [json] says so.
     * @throws PolicyException with every mistake of the document, and everything that cannot go over; nothing has changed then. A policy
     * keeps the pools that it names, and a pool its kind. A new name may not be that of another policy or pool of the engine.
     */
    @JvmOverloads
    public fun reload(document: String, json: Boolean = false): Reloaded {
        val to = read(document, json)
        return synchronized(this) {
            val before = state
            val changes = checked(SAME) { engine.reload(before.document, to) }
            state = taken(to, changes.loaded, before)
            Reloaded(to.digest(), changes.added, changes.changed, changes.removed)
        }
    }

    /** What the engine has of a document; policies and pools that were there before are the same objects. */
    private fun taken(document: Document, loaded: Loaded, before: State?): State {
        val policies = loaded.policies.associate {
            it.name to (before?.policies?.get(it.name) ?: Policy(Core(engine, it.name, it.number, classify)))
        }
        val pools = loaded.pools.associate { it.name to (before?.pools?.get(it.name) ?: Pool.taken(it.name, it.kind, engine)) }
        return State(document, policies, pools)
    }

    private companion object {
        /** Keys of a document are as they were written. */
        val SAME = { text: String -> text }

        fun read(text: String, json: Boolean): Document = checked(SAME) { Library.loaded { Document(text, json) } }
    }
}

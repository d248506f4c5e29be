package dev.tidegate

import dev.tidegate.ffi.Document
import dev.tidegate.ffi.Loaded
import dev.tidegate.internal.Library
import dev.tidegate.internal.checked

/**
 * Changes that [Policies.reload] has made. Names are as in the document: `policy.payments`, `pool.db`, `targets.chat`.
 *
 * @property digest New value of [Policies.digest].
 * @property added Names that only the newer document has.
 * @property changed Names in both documents, with other settings.
 * @property removed Names that only the older document has.
 */
public class Reloaded internal constructor(
    public val digest: String,
    public val added: List<String>,
    public val changed: List<String>,
    public val removed: List<String>,
) {
    override fun toString(): String = "Reloaded(digest=$digest, added=$added, changed=$changed, removed=$removed)"
}

/** Policies of a document, by name: a map that [reload] changes. Thread-safe. Made by [Policy.load]. */
public class Policies internal constructor(text: String, json: Boolean, private val engine: Engine, private val code: ConfigureCode?) :
    AbstractMap<String, Policy>() {
    private class State(val document: Document, val policies: Map<String, Policy>, val pools: Map<String, Pool>)

    @Volatile private var state: State

    init {
        val document = read(text, json)
        val loaded = checked(SAME) { engine.load(document) }
        val codes = codes(loaded, null) { for (policy in loaded.policies) engine.release(policy.number, true) }
        state = taken(document, loaded, null, codes)
    }

    override val entries: Set<Map.Entry<String, Policy>> get() = state.policies.entries

    /** The document's pools, by name. */
    public val pools: Map<String, Pool> get() = state.pools

    /**
     * Digest of the document's settings, 16 hexadecimal digits. Processes with the same settings have the same digest, in every language
     * and format.
     */
    public val digest: String get() = state.document.digest()

    /**
     * Applies a newer version of the document while its policies are in use: all of it, or nothing.
     *
     * Policies and pools of both versions keep their counts, and calls in flight finish under the settings that they began with. A policy
     * that is missing from the newer version keeps its settings, for code that still holds it.
     *
     * @param document Text in TOML, or in JSON if [json] is set.
     * @throws PolicyException with all mistakes of the document, and all changes that a reload cannot make; nothing has changed then. A
     * reload cannot change the pools that a policy names, nor the kind of a pool. A new name must not belong to another policy or pool of
     * the engine. An exception of the document's `code` for a new policy is thrown as it is, and undoes the reload: the settings of the
     * older version are back, also where they had been retuned by hand since. If the engine refuses that (a policy that the newer version
     * lacks had been retuned by hand, or the engine has been closed meanwhile), the refusal is among the exception's suppressed ones, and what
     * both versions have keeps the newer settings until the next reload.
     */
    @JvmOverloads
    public fun reload(document: String, json: Boolean = false): Reloaded {
        val to = read(document, json)
        return synchronized(this) {
            val before = state
            val changes = checked(SAME) { engine.reload(before.document, to) }
            val codes = codes(changes.loaded, before) {
                // First, because the way back may be refused, and no policy may keep an owner that does not exist.
                for (policy in changes.loaded.policies) engine.release(policy.number, true)
                val back = checked(SAME) { engine.reload(to, before.document) }
                for (policy in back.loaded.policies) engine.release(policy.number, true)
            }
            state = taken(to, changes.loaded, before, codes)
            // The engine counts one owner more for each; those that were there before have theirs already.
            for (policy in changes.loaded.policies) if (policy.name in before.policies) engine.release(policy.number, true)
            Reloaded(to.digest(), changes.added, changes.changed, changes.removed)
        }
    }

    /** State of a loaded document. Policies and pools that exist already remain the same objects. */
    private fun taken(document: Document, loaded: Loaded, before: State?, codes: Map<String, PolicyCode>): State {
        val policies = loaded.policies.associate { it.name to (before?.policies?.get(it.name) ?: made(it.name, it.number, codes.getValue(it.name))) }
        val pools = loaded.pools.associate { it.name to (before?.pools?.get(it.name) ?: Pool.taken(it.name, it.kind, engine)) }
        return State(document, policies, pools)
    }

    private fun made(name: String, number: UInt, own: PolicyCode): Policy = Policy(engine.owned(Core(engine, name, number, own), null))

    /**
     * Code of the policies that are new. If the user's function throws, [undo] takes back what the engine has loaded; the exception stays the
     * user's, whatever [undo] throws.
     */
    private fun codes(loaded: Loaded, before: State?, undo: () -> Unit): Map<String, PolicyCode> = try {
        loaded.policies.map { it.name }.filter { before?.policies?.containsKey(it) != true }
            .associateWith { name -> PolicyCode().also { own -> code?.apply { own.configure(name) } } }
    } catch (@Suppress("TooGenericExceptionCaught") error: Throwable) {
        try {
            undo()
        } catch (@Suppress("TooGenericExceptionCaught") failed: Exception) {
            error.addSuppressed(failed)
        }
        throw error
    }

    private companion object {
        /** Leaves keys as they are in the document. */
        val SAME = { text: String -> text }

        fun read(text: String, json: Boolean): Document = checked(SAME) { Library.loaded { Document(text, json) } }
    }
}

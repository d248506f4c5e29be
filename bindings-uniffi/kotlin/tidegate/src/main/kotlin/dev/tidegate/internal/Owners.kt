package dev.tidegate.internal

import dev.tidegate.Core
import dev.tidegate.Engine
import java.lang.ref.PhantomReference
import java.lang.ref.ReferenceQueue
import java.lang.ref.WeakReference
import java.util.concurrent.ConcurrentHashMap
import java.util.logging.Logger

/**
 * Owners of an engine's policies (docs/adr/0037-owners-on-the-jvm.md). An owner is a [Core], which a policy, its callers and its calls
 * share. It is released after it has become unreachable. No thread does that, because a thread would keep its class loader: [collect] runs
 * whenever a policy or a snapshot is made.
 */
internal class Owners(private val engine: Engine) {
    private class Grave(owner: Core, queue: ReferenceQueue<Core>, val policy: UInt, val keep: Boolean) : PhantomReference<Core>(owner, queue)

    private class Held(val name: String, var owners: Int, var place: Place?)

    private val queue = ReferenceQueue<Core>()
    private val graves: MutableSet<Grave> = ConcurrentHashMap.newKeySet()
    private val held = ConcurrentHashMap<UInt, Held>()

    /** Policies that have an owner. */
    val policies: Set<UInt> get() = held.keys

    fun name(policy: UInt): String? = held[policy]?.name

    /** Adds an owner. The engine keeps a policy without owners only if it has a name by which it can be made again. */
    fun add(owner: Core, place: Place?): Unit = synchronized(held) {
        val held = held[owner.number] ?: Held(owner.name, 0, place).also { held[owner.number] = it }
        held.owners += 1
        held.place = place ?: held.place
        graves += Grave(owner, queue, owner.number, owner.isNamed)
    }

    /** Policy of this name whose definition the one at [place] replaces, because its class was loaded again; null if there is none. */
    fun replaced(name: String, place: Place?): UInt? {
        if (place == null) return null
        return held.entries.firstOrNull { it.value.name == name && place.replaces(it.value.place) }?.key
    }

    /** Releases the owners that have become unreachable. */
    fun collect(): Unit = synchronized(held) {
        while (true) {
            val grave = queue.poll() as Grave? ?: return
            graves -= grave
            held[grave.policy]?.let { if (--it.owners == 0) held -= grave.policy }
            engine.release(grave.policy, grave.keep)
        }
    }
}

/**
 * Class that defines a policy or a pool. If it is loaded again (a reloading server, a notebook's cell that runs again), its definitions
 * replace the older ones.
 */
internal class Place(type: Class<*>) {
    private val name = name(type)
    private val type = WeakReference(type)

    /** Whether this class is another version of the class at the other place. */
    fun replaces(other: Place?): Boolean = other != null && name == other.name && type.get() !== other.type.get()

    override fun toString(): String = name

    companion object {
        /** Classes of cells in Kotlin's notebooks and in JShell are numbered. */
        private val cells = arrayOf("Line_", "REPL.\$JShell\$")

        fun name(type: Class<*>): String {
            val name = type.name
            for (cell in cells) {
                if (!name.begins(cell)) continue
                var end = cell.length
                while (end < name.length && name[end] in '0'..'9') end++
                return cell + name.subSequence(end, name.length)
            }
            return name
        }

        /** Place of the code that calls Tidegate; null where the platform cannot tell. */
        fun here(): Place? = try {
            Caller.type()?.let(::Place)
        } catch (_: LinkageError) {
            null // Android before version 14
        }

        /** Logs that a definition has replaced an older one. */
        fun replaced(what: String, place: Place) {
            val text = "$what is defined again in $place, with other settings, and has been retuned; if these are two, give one another name"
            try {
                Logger.getLogger("dev.tidegate").warning(text)
            } catch (_: LinkageError) {
                System.err.println("tidegate: $text") // a runtime without the module java.logging
            }
        }
    }

    private object Caller {
        private val walker = StackWalker.getInstance(StackWalker.Option.RETAIN_CLASS_REFERENCE)

        /** Classes between the code that calls Tidegate and this one. */
        private val ours = arrayOf("Engine", "Policy", "PolicyKt", "Pool", "internal.Place", "internal.Owners")

        fun type(): Class<*>? = walker.walk { frames ->
            val all = frames.iterator()
            var found: Class<*>? = null
            while (found == null && all.hasNext()) found = all.next().declaringClass.takeIf { !isOurs(it.name) }
            found
        }

        private fun isOurs(name: String): Boolean {
            if (!name.begins(PACKAGE)) return false
            for (of in ours) {
                val end = PACKAGE.length + of.length
                if (name.begins(PACKAGE + of) && (name.length == end || name[end] == '$')) return true
            }
            return false
        }

        private const val PACKAGE = "dev.tidegate."
    }
}

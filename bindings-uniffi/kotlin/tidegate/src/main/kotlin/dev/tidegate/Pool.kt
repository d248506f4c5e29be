package dev.tidegate

import dev.tidegate.internal.Place
import dev.tidegate.internal.Table
import dev.tidegate.ffi.Pair as Setting

/**
 * A bulkhead, a rate limit or a retry budget that policies share.
 *
 * ```kotlin
 * val db = Pool.bulkhead("db") { maxConcurrency = 10; maxQueue = 50 }
 * val reads = policy { bulkhead { pool = db; acquireTimeout = 100.milliseconds } }
 * ```
 */
public class Pool private constructor(
    /** Name of the pool. */
    public val name: String,
    private val kind: String,
    /** Engine that keeps the pool's state. */
    public val engine: Engine,
) {
    /** Changes the settings of a bulkhead. [configure] must contain all settings. A higher limit admits waiting calls at once. */
    public fun retuneBulkhead(configure: Configure<Bulkhead>): Unit = set(Table().also { with(configure) { Bulkhead(it).configure() } }, true)

    /** Changes the settings of a rate limit. */
    public fun retuneRateLimit(configure: Configure<RateLimit>): Unit = set(Table().also { with(configure) { RateLimit(it).configure() } }, true)

    /** Changes the settings of a retry budget. */
    public fun retuneBudget(configure: Configure<Budget>): Unit = set(Table().also { with(configure) { Budget(it).configure() } }, true)

    private fun set(table: Table, again: Boolean) {
        val prefix = Facts.pools.getValue(kind) + "."
        val pairs = table.pairs().map { Setting(it.key.removePrefix(prefix), it.value) }
        if (again) engine.retunePool(name, kind, pairs) else engine.pool(name, kind, pairs, Place.here())
    }

    public companion object {
        /** Makes a bulkhead. */
        @JvmStatic
        @JvmOverloads
        public fun bulkhead(name: String, engine: Engine = Engine.default, configure: Configure<Bulkhead>): Pool =
            make(name, "bulkhead", engine, Table().also { with(configure) { Bulkhead(it).configure() } })

        /** Makes a rate limit. */
        @JvmStatic
        @JvmOverloads
        public fun rateLimit(name: String, engine: Engine = Engine.default, configure: Configure<RateLimit>): Pool =
            make(name, "rate_limit", engine, Table().also { with(configure) { RateLimit(it).configure() } })

        /** Makes a retry budget. */
        @JvmStatic
        @JvmOverloads
        public fun budget(name: String, engine: Engine = Engine.default, configure: Configure<Budget>): Pool =
            make(name, "budget", engine, Table().also { with(configure) { Budget(it).configure() } })

        /** Wraps a pool that the engine has already. */
        internal fun taken(name: String, kind: String, engine: Engine): Pool = Pool(name, kind, engine)

        private fun make(name: String, kind: String, engine: Engine, table: Table): Pool =
            Pool(name, kind, engine).also { it.set(table, false) }
    }
}

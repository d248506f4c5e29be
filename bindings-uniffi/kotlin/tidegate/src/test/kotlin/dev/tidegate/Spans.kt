package dev.tidegate

import kotlin.time.Duration.Companion.minutes

object Spans {
    @JvmStatic
    fun minute(limit: RateLimit) {
        limit.per = 1.minutes
        limit.maxWait = 2.minutes
    }
}

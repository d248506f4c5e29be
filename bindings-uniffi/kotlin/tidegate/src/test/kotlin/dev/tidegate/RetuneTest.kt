package dev.tidegate

import dev.tidegate.testing.FakeTime
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test
import kotlin.time.Duration

/** Functions and types in the block of a retune. */
class RetuneTest {
    private class Broken : RuntimeException()

    private val engine = Engine(seed = 7, timeSource = FakeTime())

    @Test
    fun `a retune takes functions and types, and keeps those that it does not name`() {
        val zero = Configure<PolicyOptions> { retry { maxAttempts = 3; backoff { base = Duration.ZERO; max = Duration.ZERO }; budget { kind = BudgetKind.NONE } } }
        val heard = mutableListOf<String>()
        val policy = policy("code", engine) { with(zero) { configure() }; retryOn<Broken>(); onRetry { heard += "old" } }
        fun made(error: () -> Throwable): Int {
            var made = 0
            runCatching { policy.call { made += 1; throw error() } }
            return made
        }
        assertEquals(listOf(3, 1), listOf(made { Broken() }, made { IllegalStateException() }))
        policy.retune { with(zero) { configure() }; onRetry { heard += "new" } }
        assertEquals(3, made { Broken() }, "the types stay")
        policy.retune { with(zero) { configure() }; retryOn<IllegalStateException>() }
        assertEquals(listOf(1, 3), listOf(made { Broken() }, made { IllegalStateException() }))
        policy.retune { with(zero) { configure() }; classify { _, error -> if (error is Broken) Outcome(Outcome.TRANSIENT) else null } }
        assertEquals(3, made { Broken() })
        assertEquals(listOf("old", "new"), heard.distinct())
    }
}

package dev.tidegate

import dev.tidegate.testing.FakeTime
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

/** A judgement that an inner call leaves is for the call around it, and for no other call with the same object (semantics 1.6.3, 1.6.5). */
class MarksTest {
    private object Shared : RuntimeException("shared") {
        private fun readResolve(): Any = Shared
    }

    private val engine = Engine(seed = 7, timeSource = FakeTime())
    private val outer = policy("outer", engine) { retry { maxAttempts = 2 } }

    private fun attempts(value: () -> Boolean): Int {
        var made = 0
        runCatching { policy("plain", engine) { retry { maxAttempts = 3 } }.call { made++; value() } }
        return made
    }

    @Test
    fun `an exception that is an object`() {
        val inner = policy("inner", engine) { retry { maxAttempts = 2 }; retryOn<Shared>() }
        assertEquals("replaced", outer.call { runCatching { inner.call { throw Shared } }.getOrElse { "replaced" } })
        assertEquals(1, attempts { throw Shared }, "no rule knows it here")
        var made = 0
        runCatching { outer.call { made++; inner.call { throw Shared } } }
        assertEquals(2, made, "the call around repeats it")
    }

    @Test
    fun `a value`() {
        val inner = policy("inner", engine) {
            retry { maxAttempts = 2 }
            classify { result, _ -> if (result == false) Outcome(Outcome.TRANSIENT) else null }
        }
        assertEquals("replaced", outer.call { inner.call { false }; "replaced" })
        assertEquals(1, attempts { false }, "false is a result like any other")
        var made = 0
        outer.call { made++; inner.call { false } }
        assertEquals(2, made, "the call around repeats it")
    }
}

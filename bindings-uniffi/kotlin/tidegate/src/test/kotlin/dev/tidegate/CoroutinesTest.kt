package dev.tidegate

import kotlinx.coroutines.CoroutineName
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout

/** What counts leaks finds a coroutine that a test has left, and none that has ended. */
@Timeout(60)
class CoroutinesTest {
    private fun named() = Coroutines.now().values.count { "CoroutineName(a leak)" in it }

    @Test
    fun `a coroutine is counted until it has ended`() {
        assertEquals(0, named())
        val leak = CoroutineScope(Dispatchers.Default).launch(CoroutineName("a leak")) { awaitCancellation() }
        assertEquals(1, named())
        runBlocking { leak.cancelAndJoin() }
        assertEquals(0, named())
    }
}

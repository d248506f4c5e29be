package dev.tidegate.http

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.params.ParameterizedTest

/** Rules × adapters (`hosts.md`): every cell has a test that runs, or a reason why it cannot. */
class MatrixTest {
    private val adapters = mapOf(
        "OkHttp" to OkHttpTest::class.java, "Ktor" to KtorTest::class.java,
        "RestClient" to RestClientTest::class.java, "WebClient" to WebClientTest::class.java, "blocking" to BlockingTest::class.java,
    )
    private val notApplicable = mapOf(
        (4 to "blocking") to "a function's result holds nothing that the policy could release",
        (11 to "blocking") to "a function has no headers; it is told the attempt's number",
    )

    private fun rules(test: Class<*>): List<Int> {
        val all = generateSequence(test as Class<*>?) { it.superclass }.flatMap { it.declaredMethods.asSequence() }
        val tests = all.filter { it.isAnnotationPresent(Test::class.java) || it.isAnnotationPresent(ParameterizedTest::class.java) }
        return tests.mapNotNull { Regex("^rule (\\d+), ").find(it.name)?.groupValues?.get(1)?.toInt() }.toList()
    }

    @Test
    fun `every rule has a test in every adapter`() {
        for ((adapter, test) in adapters) {
            val there = rules(test)
            assertTrue(there.all { it in 1..14 }, "$adapter: $there")
            for (rule in 1..14) {
                assertEquals((rule to adapter) !in notApplicable, rule in there, "rule $rule, $adapter")
            }
        }
    }

    @Test
    fun `all clients have the same tests`() {
        assertEquals(rules(OkHttpTest::class.java).sorted(), rules(KtorTest::class.java).sorted())
        assertTrue(rules(OkHttpTest::class.java).size > 25)
    }
}

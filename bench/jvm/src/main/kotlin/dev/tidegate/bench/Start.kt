package dev.tidegate.bench

import dev.tidegate.Attempt
import dev.tidegate.Configure
import dev.tidegate.PolicyOptions
import dev.tidegate.Retry
import dev.tidegate.Bulkhead
import dev.tidegate.Work
import dev.tidegate.policy

/**
 * An engine, a policy and one protected call: the program whose CPU time `bench/jvm/start.py` compares with that of an empty one. It has objects
 * where a program would have lambdas, because the first lambda of a program costs the JVM 9 ms, whose ever it is.
 */
object Start {
    private object Settings : Configure<PolicyOptions> {
        override fun PolicyOptions.configure() {
            retry(Retries)
            bulkhead(Slots)
        }
    }

    private object Retries : Configure<Retry> {
        override fun Retry.configure() {
            maxAttempts = 3
        }
    }

    private object Slots : Configure<Bulkhead> {
        override fun Bulkhead.configure() {
            maxConcurrency = 25
        }
    }

    private object Answer : Work<String> {
        override fun attempt(attempt: Attempt): String = "42"
    }

    @JvmStatic
    fun main(args: Array<String>) {
        if (args.isEmpty()) check(policy("payments", configure = Settings).call(Answer) == "42")
    }
}

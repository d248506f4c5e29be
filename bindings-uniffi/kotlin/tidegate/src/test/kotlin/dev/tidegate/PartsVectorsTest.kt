package dev.tidegate

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.ObjectMapper
import dev.tidegate.parts.AdaptiveThrottle
import dev.tidegate.parts.Aimd
import dev.tidegate.parts.CircuitBreaker
import dev.tidegate.parts.CoDel
import dev.tidegate.parts.CubicRate
import dev.tidegate.parts.DDSketch
import dev.tidegate.parts.Evidence
import dev.tidegate.parts.Gcra
import dev.tidegate.parts.Gradient2
import dev.tidegate.parts.P2Quantile
import dev.tidegate.parts.RatioBudget
import dev.tidegate.parts.RetryBudget
import dev.tidegate.parts.RetryQuota
import dev.tidegate.parts.ShareBudget
import dev.tidegate.parts.Ticket
import dev.tidegate.parts.TokenBucket
import dev.tidegate.parts.TokenBudget
import dev.tidegate.parts.Transition
import dev.tidegate.parts.WindowedP2Quantile
import dev.tidegate.parts.parseRetryAfter
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.assertThrows
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.CsvSource
import org.junit.jupiter.params.provider.ValueSource
import java.io.File
import java.math.BigInteger
import java.time.Instant
import java.time.temporal.ChronoUnit
import kotlin.time.Duration
import kotlin.time.Duration.Companion.microseconds
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

/**
 * The vectors that every language shares (`tests/README.md`), through `dev.tidegate.parts`, to the last bit.
 *
 * Moments are told from the first one of a case: only differences count. Core takes any settings, a part only those that a
 * policy may have: cases beyond them are refused, and how many those are is written down here, so that they cannot come to
 * hide the rest.
 */
class PartsVectorsTest {
    private val json = ObjectMapper()

    private fun file(path: String): JsonNode = json.readTree(File(System.getProperty("tidegate.vectors"), "$path.json"))

    private fun us(span: Duration) = if (span == Duration.INFINITE) "never" else span.inWholeMicroseconds.toString()

    /** Plays every step of a file: steps played, and cases that no policy allows. What an answer says stands in the step. */
    private fun <P> told(path: String, new: (JsonNode, Duration) -> P, answer: (P, JsonNode, (JsonNode) -> Duration) -> Map<String, Any?>): Pair<Int, Int> {
        var (played, refused) = 0 to 0
        for (case in file(path)["cases"]) {
            val origin = (case["origin"] ?: case["steps"][0]["at"]).asLong()
            val at = { moment: JsonNode -> (moment.asLong() - origin).microseconds }
            val part = try {
                new(case, Duration.ZERO)
            } catch (_: PolicyException) {
                refused++
                continue
            }
            try {
                for (step in case["steps"]) {
                    for ((key, value) in answer(part, step, at)) {
                        assertEquals(text(step[key]), value?.toString(), "$path, ${case["name"]}: $key of $step")
                    }
                    played++
                }
            } catch (_: PolicyException) {
                refused++
            }
        }
        return played to refused
    }

    private fun text(node: JsonNode?): String? = when {
        node == null || node.isNull -> null
        node.isArray -> node.joinToString(",") { it.asText() }
        else -> node.asText()
    }

    private fun JsonNode.there(key: String): JsonNode? = this[key]?.takeUnless { it.isNull }

    private fun JsonNode.int(key: String): Int? = there(key)?.asInt()

    private fun JsonNode.real(key: String): Double? = there(key)?.asText()?.toDouble()

    private fun JsonNode.span(key: String): Duration? = there(key)?.asLong()?.microseconds

    private inline fun <reified E : Enum<E>> JsonNode.word(key: String): E? = there(key)?.let { enumValueOf<E>(it.asText().uppercase()) }

    private fun bits(node: JsonNode) = BigInteger(node.asText()).toLong()

    private fun rate(from: JsonNode) = Configure<RateLimit> {
        permits = from["permits"].asInt()
        per = from.span("per")
        burst = from.int("burst")
    }

    @Test
    fun `token buckets`() {
        val found = told("rate/bucket", { case, now -> TokenBucket(now, rate(case["settings"])) }) { bucket, step, at ->
            val now = at(step["at"])
            val told = when (step["op"].asText()) {
                "take" -> {
                    val twin = bucket.copy()
                    val wait = bucket.acquire(now, step["cost"].asInt())
                    assertEquals(wait == Duration.ZERO, twin.tryTake(now, step["cost"].asInt()))
                    if (wait == Duration.ZERO) mapOf("granted" to true) else mapOf("granted" to false, "wait" to us(wait))
                }
                "wait_for" -> mapOf("wait" to us(bucket.waitFor(now, step["tokens"].asLong())))
                else -> emptyMap<String, Any>().also { bucket.retune(now, rate(step)) }
            }
            told + ("level" to bucket.level(now))
        }
        assertEquals(320 to 2, found)
    }

    @Test
    fun gcra() {
        val found = told("rate/gcra", { case, _ -> Gcra(rate(case["settings"])) }) { limit, step, at ->
            val (now, twin) = at(step["at"]) to limit.copy()
            val wait = limit.acquire(now, step["cost"].asInt())
            assertEquals(wait == Duration.ZERO, twin.tryTake(now, step["cost"].asInt()))
            if (wait == Duration.ZERO) mapOf("granted" to true) else mapOf("granted" to false, "wait" to us(wait))
        }
        assertEquals(160 to 1, found)
    }

    @Test
    fun `the published rate`() {
        val same = Configure<RateLimit> { permits = 1; per = 1.seconds; burst = 3 }
        val (limit, bucket) = Gcra(same) to TokenBucket(Duration.ZERO, same)
        val steps = file("published/gcra")["steps"]
        for (step in steps) {
            val expected = if (step["allow"].asBoolean()) 0.0 else step["retry_in"].asDouble()
            val now = (step["t"].asDouble() * 1e6).toLong().microseconds
            assertEquals(expected, limit.acquire(now).inWholeMicroseconds / 1e6, 1e-6)
            assertEquals(expected, bucket.acquire(now).inWholeMicroseconds / 1e6, 1e-6)
        }
        assertEquals(10, steps.size())
    }

    private fun aimd(from: JsonNode) = Configure<Bulkhead> {
        maxConcurrency = from["max_concurrency"].asInt()
        latencyThreshold = from.span("latency_threshold")
        minConcurrency = from.int("min_concurrency")
        increaseStep = from.real("increase_step")
        backoffRatio = from.real("backoff_ratio")
        cutInterval = from.span("cut_interval")
        latencyQuantile = from.real("latency_quantile")
    }

    /** Both forms of a limit; the exact one to the last bit. */
    private fun limited(limit: Int, exact: Double, step: JsonNode) =
        mapOf("limit" to limit, "exact" to if (exact == step["exact"].asText().toDouble()) step["exact"].asText() else exact)

    @Test
    fun `aimd limits`() {
        val found = told("limit/aimd", { case, _ -> Aimd(aimd(case["settings"])) }) { limit, step, at ->
            val now = at(step["at"])
            when (step["op"].asText()) {
                "latency" -> limit.onLatency(step.span("latency")!!, now)
                "failure" -> limit.onFailure(step.span("latency")!!, now)
                "timeout" -> limit.onTimeout(now)
                else -> limit.retune(aimd(step["settings"]))
            }
            limited(limit.limit, limit.exact, step)
        }
        assertEquals(720 to 0, found)
    }

    @Test
    fun `gradient2 limits`() {
        val new = { case: JsonNode, _: Duration ->
            val from = case["settings"]
            Gradient2 {
                maxConcurrency = from.int("max_concurrency")
                minConcurrency = from.int("min_concurrency")
                longWindow = from.int("long_window")
                rttTolerance = from.real("rtt_tolerance")
                headroom = from.real("headroom")
                variant = case.word<BulkheadVariant>("variant")
            }
        }
        val found = told("limit/gradient2", new) { limit, step, at ->
            val (started, now) = at(step["started"]) to at(step["at"])
            if (step["op"].asText() == "latency") limit.onLatency(step.span("rtt")!!, started, step["in_flight"].asInt(), now)
            else limit.onDrop(started, step["in_flight"].asInt(), now)
            limited(limit.limit, limit.exact, step)
        }
        assertEquals(3682 to 0, found)
    }

    /** A queue as its owner keeps it: the part is asked for each waiter, and told when nobody waits. */
    @ParameterizedTest
    @ValueSource(strings = ["facebook", "rfc8289"])
    fun queues(law: String) {
        class Queue(val codel: CoDel, val waiting: ArrayDeque<Pair<Duration, Double>> = ArrayDeque())
        val new = { case: JsonNode, now: Duration ->
            Queue(CoDel(now) {
                queueTarget = case.span("target")
                queueInterval = case.span("interval")
                codel = BulkheadCodel.valueOf(law.uppercase())
            })
        }
        val found = told("codel/$law", new) { queue, step, at ->
            val now = at(step["at"])
            if (step["op"].asText() == "enqueue") {
                if (queue.waiting.isEmpty()) queue.codel.onEmpty(now)
                queue.waiting += now to step.real("scale")!!
                return@told emptyMap()
            }
            var (shed, granted) = 0 to false
            val congested = queue.codel.congested(now)
            if (law == "facebook") {
                assertTrue(queue.codel.allowance(now) in listOf(5.milliseconds, 20_001.microseconds, 50.milliseconds, 100.milliseconds))
            }
            while (queue.waiting.isNotEmpty() && !granted) {
                val (came, scale) = queue.waiting.removeFirst()
                granted = !queue.codel.shouldShed(now - came, now, scale)
                if (!granted) shed++
            }
            if (queue.waiting.isEmpty()) queue.codel.onEmpty(now)
            mapOf("congested" to congested, "shed" to shed, "granted" to granted)
        }
        assertEquals(2765 to 0, found)
    }

    private fun breaker(from: JsonNode) = Configure<Breaker> {
        failureRatio = from.real("failure_ratio")
        window = from.span("window")
        windowKind = from.word<BreakerWindowKind>("window_kind")
        minThroughput = from.int("min_throughput")
        consecutive = from.int("consecutive")
        breakDuration = from.span("break_duration")
        breakFactor = from.real("break_factor")
        maxBreakDuration = from.span("max_break_duration")
        halfOpenMaxCalls = from.int("half_open_max_calls")
        successesToClose = from.int("successes_to_close")
    }

    private fun told(change: Transition?) = mapOf("transition" to change?.let { "${it.from.name.lowercase()},${it.to.name.lowercase()}" })

    /** By file: steps played, cases refused. Some of the random ones have breaks of a microsecond. */
    @ParameterizedTest
    @CsvSource(
        "body,31,0", "breaks,57,0", "half_open,87,0", "late,71,0", "opening,56,0", "random,1434,17", "retune,40,1", "time,48,1", "window,48,0",
    )
    fun breakers(name: String, steps: Int, refused: Int) {
        class Kept(val breaker: CircuitBreaker, val tickets: MutableMap<String, Ticket> = HashMap())
        val new = { case: JsonNode, _: Duration -> Kept(CircuitBreaker(0, case["settings"].span("probe_lease"), breaker(case["settings"]))) }
        val found = told("breaker/$name", new) { kept, step, at ->
            val (now, it) = at(step["at"]) to kept.breaker
            val ticket = step["forged"]?.let { Ticket(it[0].asInt(), it[1].asBoolean()) } ?: kept.tickets[step["call"]?.asText()]
            val said: Map<String, Any?> = when (val op = step["op"].asText()) {
                "admit" -> {
                    val early = it.refuses(now)
                    val admitted = it.admit(now)
                    assertEquals(early == null, admitted != null)
                    if (admitted != null) kept.tickets[step["call"].asText()] = admitted
                    if (admitted == null) mapOf("retry_in" to us(early!!)) else mapOf("probe" to admitted.probe)
                }
                "record" -> told(it.record(ticket!!, Evidence.valueOf(step["evidence"].asText().uppercase()), now, bits(step["bits"])))
                "body" -> told(it.onBodyFailure(ticket!!, now, bits(step["bits"])))
                else -> {
                    when (op) {
                        "retune" -> it.retune(now, step["settings"].span("probe_lease"), breaker(step["settings"]))
                        "reset" -> it.reset()
                        "fork" -> it.forgetProbes()
                        else -> assertEquals("look", op)
                    }
                    emptyMap()
                }
            }
            val seen = mapOf("state" to it.state.name.lowercase(), "failures" to it.failures(now), "throughput" to it.throughput(now))
            // In this order: whether it is fresh is a reading of the clock, which `openUntil` is told on.
            val fresh = mapOf("fresh" to it.isFresh(now))
            val until = it.openUntil?.let { until -> step["open_until"]?.let { at(it) == until } }
            assertTrue(until != false, "open until ${it.openUntil}: $step")
            assertEquals(step.there("open_until") != null, it.openUntil != null)
            said + seen + fresh
        }
        assertEquals(steps to refused, found)
    }

    private fun throttle(from: JsonNode) = Configure<Throttle> {
        k = from.real("k")
        window = from.span("window")
        windowKind = from.word<ThrottleWindowKind>("window_kind")
        minThroughput = from.int("min_throughput")
        maxReject = from.real("max_reject")
        probeInterval = from.span("probe_interval")
    }

    @ParameterizedTest
    @CsvSource("random,1280,0", "stories,69,0")
    fun throttles(name: String, steps: Int, refused: Int) {
        val found = told("throttle/$name", { case, now -> AdaptiveThrottle(now, 0, throttle(case["settings"])) }) { it, step, at ->
            val now = at(step["at"])
            val said = when (step["op"].asText()) {
                "admit" -> mapOf("admitted" to it.admit(now, bits(step["bits"])))
                "record" -> emptyMap<String, Any>().also { _ -> repeat(step["times"].asInt()) { _ -> it.record(step["accepted"].asBoolean(), now) } }
                "retune" -> emptyMap<String, Any>().also { _ -> it.retune(now, throttle(step["settings"])) }
                else -> emptyMap()
            }
            assertEquals(it.requests(now) == 0, it.isFresh(now))
            val p = it.probability(now)
            said + mapOf("requests" to it.requests(now), "accepts" to it.accepts(now), "p" to if (p == step["p"].asText().toDouble()) step["p"].asText() else p)
        }
        assertEquals(steps to refused, found)
    }

    @Test
    fun `who counts what`() {
        val breakers = file("breaker/classes")["classes"]
        val breaker = CircuitBreaker { consecutive = 1; breakDuration = 1.seconds }
        for ((kind, evidence) in breakers.properties()) {
            assertEquals(evidence.asText(), breaker.evidenceOf(kind).name.lowercase(), kind)
        }
        val throttles = file("throttle/classes")["classes"]
        val throttle = AdaptiveThrottle(Duration.ZERO)
        for ((kind, accepted) in throttles.properties()) {
            assertEquals(if (accepted.isNull) null else accepted.asBoolean(), throttle.accepted(kind), kind)
        }
        assertEquals(9 to 9, breakers.size() to throttles.size())
    }

    @Test
    fun `P2 estimates`() {
        var looks = 0
        for (case in file("quantile/p2")["cases"].filter { it.real("p")!! in 0.001..0.999 }) {
            val it = P2Quantile(case.real("p")!!)
            val expected = case["looks"].associateBy { it["after"].asInt() }
            for ((place, x) in case["observations"].withIndex()) {
                it.observe(x.asText().toDouble())
                val look = expected[place + 1] ?: continue
                assertEquals(look["count"].asLong() to look.real("estimate"), it.count to it.estimate, "${case["name"]}: $look")
                looks++
            }
        }
        assertEquals(577, looks)
    }

    @Test
    fun `windowed estimates`() {
        var looks = 0
        for (case in file("quantile/windowed")["cases"].filter { it["window"].asInt() >= 10 }) {
            val it = WindowedP2Quantile(case.real("p")!!, case["window"].asInt())
            for ((x, look) in case["observations"].zip(case["looks"])) {
                it.observe(x.asText().toDouble())
                val estimate = look[0].takeUnless { it.isNull }?.asText()?.toDouble()
                assertEquals(estimate to look[1].asInt(), it.estimate to it.count, "${case["name"]}: $look")
                looks++
            }
        }
        assertEquals(1678, looks)
    }

    @Test
    fun sketches() {
        val vector = file("quantile/ddsketch")
        var merged = 0
        for (case in vector["cases"].filter { it.real("alpha")!! in 0.001..0.25 }) {
            val whole = DDSketch(case.real("alpha")!!)
            for (part in case["parts"]) {
                val sketch = DDSketch(case.real("alpha")!!)
                for (x in part) sketch.add(x.asText().toDouble())
                whole.merge(sketch)
                merged++
            }
            assertEquals(listOf(case["count"].asLong(), case.real("sum"), case.real("min"), case.real("max")), listOf(whole.count, whole.sum, whole.min, whole.max))
            for (pair in case["quantiles"]) {
                val q = pair[0].asText().toDouble()
                if (q in 0.0..1.0) assertEquals(pair[1].takeUnless { it.isNull }?.asText()?.toDouble(), whole.quantile(q), "$q of $case")
            }
            val words = case["words"].map(::bits)
            assertEquals(words, whole.toWords())
            assertEquals(whole, DDSketch.fromWords(words))
        }
        assertEquals(30, merged)
        val malformed = vector["malformed"]
        for (case in malformed) {
            val told = assertThrows<IllegalArgumentException> { DDSketch.fromWords(case["words"].map(::bits)) }
            assertTrue(told.message!!.startsWith("words: "), told.message)
        }
        assertTrue(malformed.size() > 10)
    }

    @Test
    fun `windows of retries`() {
        val new = { case: JsonNode, _: Duration ->
            val from = case["settings"]
            RetryBudget {
                ttl = from.span("ttl")
                minRetriesPerSec = from.real("min_retries_per_sec")
                percentCanRetry = from.real("percent_can_retry")
                rounding = from.word<BudgetRounding>("rounding")
            }
        }
        val found = told("budget/window", new) { it, step, at ->
            val now = at(step["at"])
            val said = when (step["op"].asText()) {
                "deposit" -> emptyMap<String, Any>().also { _ -> it.deposit(now) }
                "withdraw" -> mapOf("granted" to it.tryWithdraw(now))
                "refund" -> emptyMap<String, Any>().also { _ -> it.refund(at(step["charged_at"]), now) }
                else -> emptyMap()
            }
            said + ("balance" to it.balance(now))
        }
        assertEquals(490 to 0, found)
    }

    private fun steps(kind: String) = file("budget/$kind")["cases"].sumOf { it["steps"].size() } to 0

    @Test
    fun `other budgets`() {
        val ratio = told("budget/ratio", { case, _ -> RatioBudget { ratio = case["settings"].real("ratio"); minThroughput = case["settings"].int("min_throughput") } }) { it, step, _ ->
            val said = when (step["op"].asText()) {
                "deposit" -> emptyMap<String, Any>().also { _ -> it.onCall() }
                "withdraw" -> mapOf("granted" to it.tryWithdraw())
                else -> emptyMap<String, Any>().also { _ -> it.refund() }
            }
            said + ("balance" to it.balance)
        }
        val share = told("budget/share", { case, _ -> ShareBudget { share = case["settings"].real("share"); minRetries = case["settings"].int("min_retries") } }) { it, step, _ ->
            val said = if (step["op"].asText() == "withdraw") mapOf("granted" to it.tryAcquire(step["calls"].asInt())) else emptyMap<String, Any>().also { _ -> it.onEnd() }
            said + ("in_flight" to it.inFlight)
        }
        val tokens = told("budget/tokens", { case, _ -> TokenBudget { max = case["settings"].int("max"); this.ratio = case["settings"].real("ratio") } }) { it, step, _ ->
            when (step["op"].asText()) {
                "withdraw" -> mapOf("granted" to it.allows)
                "failure" -> emptyMap<String, Any>().also { _ -> it.onFailure() }
                else -> emptyMap<String, Any>().also { _ -> it.onSuccess() }
            }
        }
        val quota = told("budget/quota", { case, _ ->
            val from = case["settings"]
            RetryQuota { capacity = from.int("capacity"); cost = from.int("cost"); timeoutCost = from.int("timeout_cost"); throttledCost = from.int("throttled_cost") }
        }) { it, step, _ ->
            val said = when (step["op"].asText()) {
                "withdraw" -> mapOf("granted" to (acquired(it, step["class"].asText()) != null))
                "success" -> emptyMap<String, Any>().also { _ -> it.onSuccess(step["cost"].asInt()) }
                else -> emptyMap<String, Any>().also { _ -> it.refund(step["cost"].asInt()) }
            }
            said + ("balance" to it.available)
        }
        assertEquals(listOf("ratio", "share", "tokens", "quota").map(::steps), listOf(ratio, share, tokens, quota))
    }

    /** A policy pays for three classes; for the others there is nothing to ask a part. */
    private fun acquired(quota: RetryQuota, kind: String): Int? =
        if (kind in setOf("transient", "timeout", "throttled")) quota.tryAcquire(kind)
        else assertThrows<IllegalArgumentException> { quota.tryAcquire(kind) }.let { null }

    @Test
    fun delays() {
        val cases = file("backoff/delays")["cases"]
        var played = 0
        for (case in cases) {
            if (!case.has("seed")) continue // those of given bits are core's alone
            val it = try {
                dev.tidegate.parts.Backoff(bits(case["seed"])) {
                    kind = case.word<BackoffKind>("kind")
                    base = case.span("base")
                    max = case.span("max")
                    multiplier = case.real("multiplier")
                    exponent = case.int("exponent")
                    jitter = case.word<BackoffJitter>("jitter")
                    jitterRatio = case.real("jitter_ratio")
                }
            } catch (_: PolicyException) {
                continue
            }
            if (case["n"].asInt() !in 1..255) continue
            val (n, call) = case["n"].asInt() to (case.there("call")?.let(::bits) ?: 0)
            assertEquals(case["ceiling"].asLong().microseconds to case["delay"].asLong().microseconds, it.ceiling(n) to it.delay(n, call), "$case")
            played++
        }
        assertEquals(cases.count { it.has("seed") }, played)
        assertTrue(played > 100, "$played")
    }

    @Test
    fun `Retry-After`() {
        val vector = file("retry_after/values")
        val wall = Instant.EPOCH.plus(vector["wall_us"].asLong(), ChronoUnit.MICROS)
        for (case in vector["cases"]) {
            val told = parseRetryAfter(case["value"].asText(), wall)
            if (case["delay_us"].isNull) assertNull(told, "$case") else assertEquals(us(case["delay_us"].asLong().microseconds), us(told!!), "$case")
        }
        assertTrue(vector["cases"].size() > 30)
    }

    @Test
    fun `the published cubic rate`() {
        val rate = CubicRate(Duration.ZERO)
        assertEquals(listOf(Duration.ZERO, null), listOf(rate.acquire(1.seconds), rate.rate))
        rate.onResponse(throttled = true, now = 1.seconds)
        assertTrue(rate.rate!! >= 0.5 && rate.copy().acquire(1.seconds) > Duration.ZERO)
    }
}

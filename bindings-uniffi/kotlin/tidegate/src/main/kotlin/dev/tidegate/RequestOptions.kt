package dev.tidegate

import kotlin.time.Duration
import kotlin.time.toKotlinDuration

/** Makes the body of a repeat. */
public fun interface BodyFactory {
    /**
     * Body of a repeat: with OkHttp a `RequestBody`, with Ktor an `OutgoingContent`, a `ByteReadChannel`, bytes or a text. If it throws,
     * the attempt fails with that exception.
     */
    public fun make(): Any
}

/**
 * Options of one request, where they differ from its policy's other requests. With OkHttp they are a tag of the request,
 * `tag(RequestOptions::class.java, …)`; with Ktor the block `tidegate { … }` returns them or a copy of them.
 *
 * @property policy Another policy for the request.
 * @property route Key under which limits and statistics are kept; `scheme://host:port` if null.
 * @property idempotent Whether a repeat is harmless. If null, the method and an `Idempotency-Key` decide.
 * @property replayable Whether the body can be sent again. If null, the body decides.
 * @property criticality Importance to a queue.
 * @property deadline Time for the whole call.
 * @property cost Tokens that the request takes from a rate limit.
 * @property bodyFactory Makes the body of a repeat, if the body can be read only once. The first attempt sends the request's own body.
 * @property retryHeader Whether repeats carry `Retry-Attempt: n`. If null, the adapter's setting decides.
 * @property stream Whether the answer is a stream, to which `firstByteTimeout` applies. If null, it is one if the request accepts
 * `text/event-stream`.
 * @property weights Amounts that the request will use of the weights that its rate limit counts, as in [CallOptions].
 */
public class RequestOptions @JvmOverloads constructor(
    public val policy: Policy? = null,
    public val route: String? = null,
    public val idempotent: Boolean? = null,
    public val replayable: Boolean? = null,
    public val criticality: Criticality? = null,
    public val deadline: Duration? = null,
    public val cost: Int = 1,
    public val retryHeader: Boolean? = null,
    public val bodyFactory: BodyFactory? = null,
    public val weights: Map<String, Long> = emptyMap(),
    public val stream: Boolean? = null,
) {
    init {
        require(cost in 0..0xffff) { "cost = $cost: must be from 0 to 65535" }
        requireAmounts("weights", weights)
    }

    /** Copy with the given values changed. */
    public fun copy(
        policy: Policy? = this.policy,
        route: String? = this.route,
        idempotent: Boolean? = this.idempotent,
        replayable: Boolean? = this.replayable,
        criticality: Criticality? = this.criticality,
        deadline: Duration? = this.deadline,
        cost: Int = this.cost,
        retryHeader: Boolean? = this.retryHeader,
        bodyFactory: BodyFactory? = this.bodyFactory,
        weights: Map<String, Long> = this.weights,
        stream: Boolean? = this.stream,
    ): RequestOptions =
        RequestOptions(policy, route, idempotent, replayable, criticality, deadline, cost, retryHeader, bodyFactory, weights, stream)

    /** Copy with a [deadline], for Java. */
    public fun withDeadline(deadline: java.time.Duration): RequestOptions = copy(deadline = deadline.toKotlinDuration())

    /** Copy with a [cost], for Java. */
    public fun withCost(cost: Int): RequestOptions = copy(cost = cost)

    /** Copy with a [bodyFactory], for Java. */
    public fun withBodyFactory(factory: BodyFactory): RequestOptions = copy(bodyFactory = factory)

    /** Copy with [weights], for Java. */
    public fun withWeights(weights: Map<String, Long>): RequestOptions = copy(weights = weights)

    /** Copy with [stream], for Java. */
    public fun withStream(stream: Boolean): RequestOptions = copy(stream = stream)

    /** Copy with a [retryHeader], for Java. */
    public fun withRetryHeader(retryHeader: Boolean): RequestOptions = copy(retryHeader = retryHeader)
}

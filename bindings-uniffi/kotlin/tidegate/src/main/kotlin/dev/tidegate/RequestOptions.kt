package dev.tidegate

import kotlin.time.Duration
import kotlin.time.toKotlinDuration

/** Makes a body anew. */
public fun interface BodyFactory {
    /**
     * The body for a repeat: with OkHttp a `RequestBody`, with Ktor an `OutgoingContent`, a `ByteReadChannel`, bytes or a text. What it
     * throws is what the attempt has failed with.
     */
    public fun make(): Any
}

/**
 * What one request says about itself, where it differs from its policy's other requests. With OkHttp it is a tag of the
 * request, `tag(RequestOptions::class.java, …)`; with Ktor it is the block `tidegate { … }`, or a copy of this.
 *
 * @property policy Another policy for it.
 * @property route The key that state is kept under; `scheme://host:port` where it is null.
 * @property idempotent Is a repeat harmless? Where it is null, the method and an `Idempotency-Key` say.
 * @property replayable Can its body be sent again? Where it is null, the body says.
 * @property criticality How much it matters to a queue.
 * @property deadline Time for the whole call.
 * @property cost Tokens of a rate limit that it takes.
 * @property bodyFactory Makes the body anew for a repeat, where it can be read only once; the first attempt sends the request's own.
 * @property retryHeader Do repeats carry `Retry-Attempt: n`? Where it is null, the adapter's setting says.
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
) {
    /** The same, with what is given in the place of what was. */
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
    ): RequestOptions =
        RequestOptions(policy, route, idempotent, replayable, criticality, deadline, cost, retryHeader, bodyFactory)

    /** The same with a [deadline], for Java. */
    public fun withDeadline(deadline: java.time.Duration): RequestOptions = copy(deadline = deadline.toKotlinDuration())

    /** The same with a [cost], for Java. */
    public fun withCost(cost: Int): RequestOptions = copy(cost = cost)

    /** The same with a [bodyFactory], for Java. */
    public fun withBodyFactory(factory: BodyFactory): RequestOptions = copy(bodyFactory = factory)

    /** The same with a [retryHeader], for Java. */
    public fun withRetryHeader(retryHeader: Boolean): RequestOptions = copy(retryHeader = retryHeader)
}

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
public data class RequestOptions @JvmOverloads constructor(
    val policy: Policy? = null,
    val route: String? = null,
    val idempotent: Boolean? = null,
    val replayable: Boolean? = null,
    val criticality: Criticality? = null,
    val deadline: Duration? = null,
    val cost: Int = 1,
    val retryHeader: Boolean? = null,
    val bodyFactory: BodyFactory? = null,
) {
    /** The same with a [deadline], for Java. */
    public fun withDeadline(deadline: java.time.Duration): RequestOptions = copy(deadline = deadline.toKotlinDuration())

    /** The same with a [cost], for Java. */
    public fun withCost(cost: Int): RequestOptions = copy(cost = cost)

    /** The same with a [bodyFactory], for Java. */
    public fun withBodyFactory(factory: BodyFactory): RequestOptions = copy(bodyFactory = factory)

    /** The same with a [retryHeader], for Java. */
    public fun withRetryHeader(retryHeader: Boolean): RequestOptions = copy(retryHeader = retryHeader)
}

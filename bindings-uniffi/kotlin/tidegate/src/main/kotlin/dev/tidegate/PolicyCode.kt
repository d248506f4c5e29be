package dev.tidegate

/** Functions and types of a policy, which a document cannot contain: [classify], [retryOn], [onRetry], [weigh],
 * [usage]. */
@TidegateDsl
public class PolicyCode internal constructor() {
    internal var classifier: Classify? = null
    internal var listener: RetryListener? = null
    internal var weigher: Weigh? = null
    internal var used: Used? = null
    internal val on = mutableListOf<Class<out Throwable>>()

    /** Repeats errors of type [E], whatever the rule for errors (`docs/errors.md`) says about them. */
    public inline fun <reified E : Throwable> retryOn(): Unit = retryOn(E::class.java)

    /** Repeats errors of this [type], for Java. */
    public fun retryOn(type: Class<out Throwable>) {
        on += type
    }

    /** Sets the classifier, which judges the result or the error of every attempt. */
    public fun classify(classify: Classify) {
        classifier = classify
    }

    /** Sets the function that is called before the wait for each retry. */
    public fun onRetry(listener: RetryListener) {
        this.listener = listener
    }

    /**
     * Sets the function that makes the weights of HTTP requests from what their bodies say, where a request has none of its own. An exception
     * from it is reported as one of a listener is, and the limits' defaults hold.
     */
    public fun weigh(weigh: Weigh) {
        weigher = weigh
    }

    /**
     * Sets the function that makes the totals which an attempt settles from what its answer says, plain or streamed. An answer that is not
     * read to its end, or says nothing, counts what it has reserved.
     */
    public fun usage(used: Used) {
        this.used = used
    }

    /**
     * Sets [weigh] and [usage] for a limit that counts tokens: a request reserves what its body tells, and settles what its answer says. They
     * read OpenAI, Anthropic, Gemini, Bedrock, and services that speak like one of them.
     *
     * @param weight Weight that the tokens count for.
     * @param output Tokens that an answer is taken to have if its request does not limit them.
     * @param factors How much each kind of token counts.
     * @throws IllegalArgumentException if an argument is out of its range.
     */
    @JvmOverloads
    public fun tokens(weight: String = "tokens", output: Long = 1_000, factors: Factors = Factors()) {
        val tokens = Tokens(weight, output, factors)
        weigher = tokens
        used = tokens
    }
}

/** Code for the policies of a document: `Policy.load(text) { name -> retryOn<MyError>() }`. */
public fun interface ConfigureCode {
    /** Configures the policy with this [name]. It runs once for each policy. */
    public fun PolicyCode.configure(name: String)
}

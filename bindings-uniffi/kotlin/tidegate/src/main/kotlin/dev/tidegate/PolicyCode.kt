package dev.tidegate

/** Functions and types of a policy, which a document cannot contain: [classify], [retryOn], [onRetry]. */
@TidegateDsl
public class PolicyCode internal constructor() {
    internal var classifier: Classify? = null
    internal var listener: RetryListener? = null
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
}

/** Code for the policies of a document: `Policy.load(text) { name -> retryOn<MyError>() }`. */
public fun interface ConfigureCode {
    /** Configures the policy with this [name]. It runs once for each policy. */
    public fun PolicyCode.configure(name: String)
}

package dev.tidegate

import dev.tidegate.internal.Table

/** Separates the blocks of a policy: a setting of the policy cannot be used inside its `retry { … }`. */
@DslMarker
@Target(AnnotationTarget.CLASS)
public annotation class TidegateDsl

/** Settings as written. Core checks them all together when the policy is made. */
public abstract class Options internal constructor(internal val settings: Table) {
    internal companion object {
        /** The word for "none", where a key accepts it. */
        const val NONE: String = "none"
    }
}

/** A block of settings: `retry { maxAttempts = 4 }`, from Java `retry(it -> it.setMaxAttempts(4))`. */
public fun interface Configure<T> {
    /** Writes the settings down. */
    public fun T.configure()
}

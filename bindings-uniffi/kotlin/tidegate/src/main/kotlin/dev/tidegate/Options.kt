package dev.tidegate

import dev.tidegate.internal.Table

/** Keeps the blocks of a policy apart: a setting of the policy is not one of its `retry { … }`. */
@DslMarker
@Target(AnnotationTarget.CLASS)
public annotation class TidegateDsl

/** Settings that are written down, to be checked all together when the policy is made. */
public abstract class Options internal constructor(internal val settings: Table) {
    internal companion object {
        /** "None" where a key takes that. */
        const val NONE: String = "none"
    }
}

/** A block of settings: `retry { maxAttempts = 4 }`, from Java `retry(it -> it.setMaxAttempts(4))`. */
public fun interface Configure<T> {
    /** Writes the settings down. */
    public fun T.configure()
}

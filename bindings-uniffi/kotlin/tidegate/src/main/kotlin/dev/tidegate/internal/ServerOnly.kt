package dev.tidegate.internal

/** Code that runs on servers only, so it may use what Android lacks; the check of Android's API in `pom.xml` skips it. */
@Retention(AnnotationRetention.BINARY)
@Target(AnnotationTarget.CLASS, AnnotationTarget.FUNCTION)
internal annotation class ServerOnly

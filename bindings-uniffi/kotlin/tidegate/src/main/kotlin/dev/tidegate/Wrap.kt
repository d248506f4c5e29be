package dev.tidegate

import dev.tidegate.internal.Proxied
import java.lang.reflect.Proxy

/**
 * Puts the methods of [client] behind the policy and returns an object of the interface [type].
 *
 * If the interface has suspending methods, only these are wrapped; otherwise all methods are. A method that returns a stream (a `Flow`, a
 * sequence, an iterator, a channel) or a future is never wrapped: it returns at once, and its work happens afterwards.
 *
 * If the policy repeats calls, name the [methods] that may be repeated, because a repeated write may happen twice. Names are optional if
 * the policy's `retryOn` has only the classes after which nothing has been carried out (`never_sent`, `throttled`, `conflict`).
 *
 * A blocking method must declare that it throws `IOException` (in Kotlin by `@Throws`), because a policy refuses with one.
 *
 * ```kotlin
 * interface Orders { suspend fun place(item: String): Int }
 * val orders = payments.wrap<Orders>(client, methods = listOf("place"))
 * ```
 *
 * @param methods Names of the methods, with all their overloads; all methods if null.
 * @param route Key under which limits and statistics are kept; if null, that of the policy's other calls.
 * @throws IllegalArgumentException if [type] is not an interface, a name is not the name of a method, or a method cannot be wrapped.
 */
@JvmOverloads
public fun <T : Any> Policy.wrap(type: Class<T>, client: T, methods: Collection<String>? = null, route: String? = null): T {
    require(type.isInterface) { "type = ${type.name}: must be an interface" }
    val wrapped = Proxied.choose(this, type, methods)
    val caller = if (route == null) this else at(route)
    val handler = Proxied(caller, name, client, wrapped)
    return type.cast(Proxy.newProxyInstance(type.classLoader, arrayOf(type), handler))
}

/** Puts the methods of [client] behind the policy, as the interface that the caller asks for; see the other [wrap]. */
public inline fun <reified T : Any> Policy.wrap(client: T, methods: Collection<String>? = null, route: String? = null): T =
    wrap(T::class.java, client, methods, route)

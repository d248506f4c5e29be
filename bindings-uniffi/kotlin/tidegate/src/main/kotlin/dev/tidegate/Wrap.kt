package dev.tidegate

import dev.tidegate.internal.Proxied
import java.lang.reflect.Proxy

/**
 * Puts the methods of [client] behind the policy: an object of the interface [type], whose calls are calls of the policy.
 *
 * Of an interface that has suspending methods, these are wrapped, and no others; of one that has none, all its methods.
 * What hands out a stream (a `Flow`, a sequence, an iterator, a channel) or answers later (a future) is never wrapped:
 * it comes back at once, and what matters happens after.
 *
 * A policy that repeats calls takes all methods only where its `retryOn` has no class after which something may have been
 * carried out (`never_sent`, `throttled`, `conflict`): a write that is repeated after another failure may happen twice.
 * Otherwise name the [methods] that may be repeated.
 *
 * A blocking method has to declare that it throws `IOException` (in Kotlin by `@Throws`), which is what a policy refuses with.
 *
 * ```kotlin
 * interface Orders { suspend fun place(item: String): Int }
 * val orders = payments.wrap<Orders>(client, methods = listOf("place"))
 * ```
 *
 * @param methods The names of the methods, with all that overload them; all of them where it is null.
 * @param route The key that state is kept under; that of a policy's other calls where it is null.
 * @throws IllegalArgumentException if [type] is no interface, a name is that of no method, or the methods cannot be wrapped.
 */
@JvmOverloads
public fun <T : Any> Policy.wrap(type: Class<T>, client: T, methods: Collection<String>? = null, route: String? = null): T {
    require(type.isInterface) { "type = ${type.name}: must be an interface" }
    val wrapped = Proxied.choose(this, type, methods)
    val caller = if (route == null) this else at(route)
    val handler = Proxied(caller, name, client, wrapped)
    return type.cast(Proxy.newProxyInstance(type.classLoader, arrayOf(type), handler))
}

/** The same for the interface that is asked for; see [wrap]. */
public inline fun <reified T : Any> Policy.wrap(client: T, methods: Collection<String>? = null, route: String? = null): T =
    wrap(T::class.java, client, methods, route)

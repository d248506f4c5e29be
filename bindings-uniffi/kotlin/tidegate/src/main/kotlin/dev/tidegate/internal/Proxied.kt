package dev.tidegate.internal

import dev.tidegate.Caller
import dev.tidegate.Policy
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.Dispatchers
import java.io.IOException
import java.io.InterruptedIOException
import java.lang.reflect.InvocationHandler
import java.lang.reflect.InvocationTargetException
import java.lang.reflect.Method
import java.lang.reflect.Modifier
import java.lang.reflect.ParameterizedType
import java.lang.reflect.Type
import java.lang.reflect.WildcardType
import kotlin.coroutines.Continuation
import kotlin.coroutines.ContinuationInterceptor
import kotlin.coroutines.intrinsics.COROUTINE_SUSPENDED
import kotlin.coroutines.intrinsics.intercepted
import kotlin.coroutines.intrinsics.startCoroutineUninterceptedOrReturn
import kotlin.coroutines.intrinsics.suspendCoroutineUninterceptedOrReturn
import kotlin.coroutines.resumeWithException

/** Handler of a wrapped object: some of its methods are calls of the policy, all others go straight to the object. */
internal class Proxied(
    private val caller: Caller,
    private val policy: String,
    private val client: Any,
    private val wrapped: Set<Method>,
) : InvocationHandler {
    override fun invoke(proxy: Any, method: Method, args: Array<Any?>?): Any? {
        val given = args ?: emptyArray()
        if (method.declaringClass == Any::class.java) return own(proxy, method, given)
        if (method !in wrapped) return ask(method, given)
        if (!isSuspending(method)) return interruptible(method) { caller.call { ask(method, given) } }
        @Suppress("UNCHECKED_CAST") // the compiler puts it last
        return suspending(method, given, given.last() as Continuation<Any?>)
    }

    /** A proxy would wrap an [InterruptedException] that the method does not declare. */
    private inline fun interruptible(method: Method, work: () -> Any?): Any? = try {
        work()
    } catch (interrupted: InterruptedException) {
        if (method.exceptionTypes.any { it.isInstance(interrupted) }) throw interrupted
        Thread.currentThread().interrupt()
        throw InterruptedIOException("interrupted").initCause(interrupted)
    }

    private fun own(proxy: Any, method: Method, args: Array<Any?>): Any = when (method.name) {
        "equals" -> proxy === args[0]
        "hashCode" -> System.identityHashCode(proxy)
        else -> "$client behind \"$policy\""
    }

    private fun ask(method: Method, args: Array<Any?>): Any? = try {
        method.invoke(client, *args)
    } catch (thrown: InvocationTargetException) {
        throw thrown.targetException
    }

    private fun suspending(method: Method, args: Array<Any?>, caller: Continuation<Any?>): Any? {
        val call: suspend () -> Any? = {
            this.caller.run {
                suspendCoroutineUninterceptedOrReturn<Any?> { here -> ask(method, args.copyOf().also { it[it.lastIndex] = here }) }
            }
        }
        return try {
            call.startCoroutineUninterceptedOrReturn(caller)
        } catch (error: RuntimeException) {
            throw error
        } catch (error: Error) {
            throw error
        } catch (@Suppress("TooGenericExceptionCaught") error: Throwable) {
            // A proxy would wrap an exception that the method does not declare. After a suspension any exception can be thrown.
            later(caller, error)
            COROUTINE_SUSPENDED
        }
    }

    private fun later(caller: Continuation<Any?>, error: Throwable) {
        val own = caller.context[ContinuationInterceptor] as? CoroutineDispatcher
        if (own != null && own.isDispatchNeeded(caller.context)) return caller.intercepted().resumeWithException(error)
        Dispatchers.Default.dispatch(caller.context, Runnable { caller.intercepted().resumeWithException(error) })
    }

    companion object {
        /** Compared by name, because most of these types may be absent. */
        private val streams = setOf(
            "kotlinx.coroutines.flow.Flow", "kotlinx.coroutines.channels.ReceiveChannel", "kotlin.sequences.Sequence",
            "java.util.Iterator", "java.util.stream.BaseStream", "java.util.concurrent.Flow\$Publisher",
            "org.reactivestreams.Publisher", "java.io.InputStream", "java.io.Reader",
        )
        private val laters = setOf(
            "java.util.concurrent.Future", "java.util.concurrent.CompletionStage", "kotlinx.coroutines.Job", "retrofit2.Call",
        )

        /** Chooses the methods to wrap. */
        fun choose(policy: Policy, type: Class<*>, names: Collection<String>?): Set<Method> {
            val all = type.methods.filter { !Modifier.isStatic(it.modifiers) }
            for (method in all) method.isAccessible = true
            val chosen = if (names == null) public(policy, type, all) else named(type, all, names)
            for (method in chosen) {
                require(isSuspending(method) || method.exceptionTypes.any { it.isAssignableFrom(IOException::class.java) }) {
                    "methods: \"${method.name}\" of ${type.name} does not declare that it throws IOException, which is what a " +
                        "policy refuses with (in Kotlin: @Throws(IOException::class))"
                }
            }
            return chosen.toSet()
        }

        private fun public(policy: Policy, type: Class<*>, all: List<Method>): List<Method> {
            require(!policy.core.mayDoTwice()) {
                "methods = null: policy \"${policy.name}\" repeats calls, and what a method of ${type.name} writes may happen twice; " +
                    "name the methods that may be repeated, or let retryOn have only never_sent, throttled, conflict"
            }
            val plain = all.filter { why(it) == null }
            val chosen = plain.filter(::isSuspending).ifEmpty { plain }
            require(chosen.isNotEmpty()) { "type = ${type.name}: has no method to put behind a policy" }
            return chosen
        }

        private fun named(type: Class<*>, all: List<Method>, names: Collection<String>): List<Method> = names.flatMap { name ->
            val found = all.filter { it.name == name }
            require(found.isNotEmpty()) { "methods: \"$name\" is no method of ${type.name}" }
            for (method in found) {
                val why = why(method)
                require(why == null) { "methods: \"$name\" of ${type.name} $why, which is never wrapped" }
            }
            found
        }

        /** Why the method is never wrapped; null if it can be. */
        private fun why(method: Method): String? {
            val answers = answers(method)
            return when {
                isOne(answers, streams) -> "is a stream"
                isOne(answers, laters) -> "answers later"
                else -> null
            }
        }

        fun isSuspending(method: Method): Boolean = method.parameterTypes.lastOrNull() == Continuation::class.java

        /** Return type of a method; for a suspending method, the type argument of its continuation. */
        private fun answers(method: Method): Class<*> {
            if (!isSuspending(method)) return method.returnType
            return raw((method.genericParameterTypes.last() as? ParameterizedType)?.actualTypeArguments?.single())
        }

        private fun raw(type: Type?): Class<*> = when (type) {
            is Class<*> -> type
            is ParameterizedType -> raw(type.rawType)
            is WildcardType -> raw((type.lowerBounds + type.upperBounds).first())
            else -> Any::class.java
        }

        private fun isOne(type: Class<*>, names: Set<String>): Boolean {
            if (type.name in names) return true
            return (listOfNotNull(type.superclass) + type.interfaces).any { isOne(it, names) }
        }
    }
}

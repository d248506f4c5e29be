@file:JvmName("Targets")

package dev.tidegate

/**
 * Name of the target that the running attempt goes to; null outside of such an attempt. A function, or an interceptor of the client behind
 * Tidegate's, maps the name, which is that of the document, to a URL, a model or a key: so no secret need be in the document. Of nested calls
 * the innermost one with targets counts.
 *
 * It follows coroutines and [carried] work. In Java: `Targets.target()`.
 *
 * ```kotlin
 * val text = """{"targets": {"chat": {"pick": "ladder", "members": ["large", "small"]}}, "policy": {"chat": {"targets": "chat"}}}"""
 * val chat = Policy.load(text, json = true).getValue("chat")
 * check(chat.run { target() } == "large")
 * ```
 */
public fun target(): String? = Scope.current()?.target()

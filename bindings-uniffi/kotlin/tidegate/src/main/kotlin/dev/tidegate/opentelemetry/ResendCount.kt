package dev.tidegate.opentelemetry

import dev.tidegate.Scope
import io.opentelemetry.api.common.AttributeKey
import io.opentelemetry.api.trace.SpanKind
import io.opentelemetry.context.Context
import io.opentelemetry.sdk.trace.ReadWriteSpan
import io.opentelemetry.sdk.trace.ReadableSpan
import io.opentelemetry.sdk.trace.SpanProcessor

/**
 * Span processor that sets `http.request.resend_count` on the HTTP client spans of repeats, and on no others.
 *
 * Instrumentation inside a retry layer makes a span for each attempt, but cannot know which attempts repeat another. The retry layer knows.
 * Nested calls add up: a second attempt inside a second attempt is resend 2.
 *
 * ```kotlin
 * SdkTracerProvider.builder().addSpanProcessor(ResendCount())
 * ```
 */
public class ResendCount : SpanProcessor {
    override fun onStart(parentContext: Context, span: ReadWriteSpan) {
        if (span.kind != SpanKind.CLIENT) return
        val resends = Scope.current()?.resends() ?: return
        if (resends == 0L || METHODS.all { span.getAttribute(it) == null }) return
        span.setAttribute("http.request.resend_count", resends)
    }

    override fun isStartRequired(): Boolean = true

    override fun onEnd(span: ReadableSpan): Unit = Unit

    override fun isEndRequired(): Boolean = false

    private companion object {
        val METHODS: List<AttributeKey<String>> = listOf("http.request.method", "http.method").map { AttributeKey.stringKey(it) }
    }
}

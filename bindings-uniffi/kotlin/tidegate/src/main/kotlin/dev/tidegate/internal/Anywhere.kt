package dev.tidegate.internal

import dev.tidegate.Scope
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.Runnable
import kotlin.coroutines.CoroutineContext

/**
 * Continues a coroutine on the thread that resumes it, as `Dispatchers.Unconfined` does, with two exceptions. The thread of the process's timers
 * is not used, because the user's code could block all timers. A thread that runs the user's code or wakes other calls is not used either, because the
 * coroutine would wait for their end.
 */
internal object Anywhere : CoroutineDispatcher() {
    private const val TIMERS = "kotlinx.coroutines.DefaultExecutor"

    override fun isDispatchNeeded(context: CoroutineContext): Boolean =
        Scope.here().isBusy || Thread.currentThread().name.startsWith(TIMERS)

    override fun dispatch(context: CoroutineContext, block: Runnable): Unit = Dispatchers.IO.dispatch(context, block)
}

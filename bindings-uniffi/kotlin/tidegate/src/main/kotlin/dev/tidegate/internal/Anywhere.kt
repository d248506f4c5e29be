package dev.tidegate.internal

import dev.tidegate.Scope
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.Runnable
import kotlin.coroutines.CoroutineContext

/**
 * Continues a coroutine where it is resumed, as `Dispatchers.Unconfined` does, but for two kinds of threads: that of the process's timers, which
 * code of the user could block for all, and one that is busy with such code or with other calls, behind which this coroutine would wait.
 */
internal object Anywhere : CoroutineDispatcher() {
    private const val TIMERS = "kotlinx.coroutines.DefaultExecutor"

    override fun isDispatchNeeded(context: CoroutineContext): Boolean =
        Scope.here().isBusy || Thread.currentThread().name.startsWith(TIMERS)

    override fun dispatch(context: CoroutineContext, block: Runnable): Unit = Dispatchers.IO.dispatch(context, block)
}

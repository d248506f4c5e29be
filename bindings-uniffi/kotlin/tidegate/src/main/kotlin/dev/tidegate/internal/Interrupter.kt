package dev.tidegate.internal

import kotlinx.coroutines.DelicateCoroutinesApi
import kotlinx.coroutines.GlobalScope
import kotlinx.coroutines.delay
import kotlinx.coroutines.launch
import kotlin.time.Duration

/** Interrupts the thread that makes it after [time], for blocking clients that nothing else can stop. */
@OptIn(DelicateCoroutinesApi::class)
internal class Interrupter(time: Duration) {
    private val thread = Thread.currentThread()
    private var fired = false
    private var stopped = false
    private var last: (suspend () -> Unit)? = null
    private val timer = GlobalScope.launch {
        delay(time)
        if (fire()) last?.invoke()
    }

    private fun fire(): Boolean = synchronized(this) {
        if (stopped) return false
        fired = true
        thread.interrupt()
        true
    }

    /** Sets work to do after the interrupt. False if the timer has fired before. */
    fun afterwards(work: suspend () -> Unit): Boolean = synchronized(this) {
        if (!fired) last = work
        !fired
    }

    /** Stops the timer. Returns whether it has fired; its interrupt is then taken back. */
    fun stop(): Boolean = synchronized(this) {
        timer.cancel()
        if (fired && !stopped) Thread.interrupted()
        stopped = true
        fired
    }
}

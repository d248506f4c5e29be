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
    private val timer = GlobalScope.launch {
        delay(time)
        fire()
    }

    private fun fire(): Unit = synchronized(this) {
        if (stopped) return
        fired = true
        thread.interrupt()
    }

    /** Stops the timer. Returns whether it has fired; its interrupt is then taken back. */
    fun stop(): Boolean = synchronized(this) {
        timer.cancel()
        if (fired && !stopped) Thread.interrupted()
        stopped = true
        fired
    }
}

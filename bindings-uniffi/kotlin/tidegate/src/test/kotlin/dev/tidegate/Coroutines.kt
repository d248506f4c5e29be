package dev.tidegate

/** Coroutines that have not ended. The agent of `kotlinx-coroutines` (`argLine` in pom.xml) knows all of them, and tells debuggers. */
internal object Coroutines {
    private val probes = Class.forName("kotlinx.coroutines.debug.internal.DebugProbesImpl")
    private val self = probes.getField("INSTANCE").get(null)
    private val dump = probes.getMethod("dumpCoroutinesInfo")
    private val info = Class.forName("kotlinx.coroutines.debug.internal.DebugCoroutineInfo")
    private val number = info.getMethod("getSequenceNumber")
    private val context = info.getMethod("getContext")
    private val stack = info.getMethod("lastObservedStackTrace")

    init {
        val installed = probes.methods.first { it.name.startsWith("isInstalled") }.invoke(self)
        check(installed == true) { "the agent of kotlinx-coroutines is missing: see argLine in pom.xml" }
    }

    /** Their descriptions, by numbers that no two have. */
    fun now(): Map<Long, String> = (dump.invoke(self) as List<*>).associate {
        (number.invoke(it) as Long) to "coroutine ${context.invoke(it)} at ${(stack.invoke(it) as List<*>).take(3)}"
    }
}

package dev.tidegate.example

import dev.tidegate.Engine
import dev.tidegate.Policy
import dev.tidegate.Preset
import dev.tidegate.TidegateException
import dev.tidegate.okhttp.okHttpInterceptor
import dev.tidegate.policy
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.runInterruptible
import okhttp3.OkHttpClient
import okhttp3.Request
import java.io.IOException
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

/** What a screen shows. */
sealed interface Screen {
    /** Nothing yet. */
    data object Loading : Screen

    /** The entries; [stale] says that they are those of before. */
    data class Entries(val lines: List<String>, val stale: Boolean) : Screen

    /** Nothing to show, and in how many seconds another try makes sense, where that is known. */
    data class Sorry(val message: String, val retryIn: Long?) : Screen
}

/** Where entries come from: one HTTP client, one policy. It holds what was seen last, for when the network is gone. */
class TimelineRepository(private val url: String, engine: Engine = Engine.default) {
    private val policy: Policy = policy("timeline", engine) {
        preset = Preset.HTTP
        deadline = 10.seconds
        attemptTimeout = 3.seconds
        retry { maxAttempts = 4; backoff { base = 20.milliseconds } }
        bulkhead { maxConcurrency = 4; maxQueue = 20 }
    }
    private val client = OkHttpClient.Builder().addInterceptor(policy.okHttpInterceptor()).build()
    private var seen: List<String>? = null

    /** The entries, fresh or as they were; and are they stale? */
    suspend fun entries(): Pair<List<String>, Boolean> = try {
        val lines = runInterruptible(Dispatchers.IO) { fetch() }
        seen = lines
        lines to false
    } catch (error: IOException) {
        (seen ?: throw error) to true
    }

    private fun fetch(): List<String> = client.newCall(Request.Builder().url("$url/timeline").build()).execute().use {
        if (!it.isSuccessful) throw IOException("the server says ${it.code}")
        it.body.string().lines().filter(String::isNotBlank)
    }
}

/** The state of the screen, as a view model on Android has it. */
class TimelineModel(private val repository: TimelineRepository) {
    private val screen = MutableStateFlow<Screen>(Screen.Loading)

    /** What to show. */
    val state: StateFlow<Screen> get() = screen

    /** Loads the entries. */
    suspend fun refresh() {
        screen.value = try {
            val (lines, stale) = repository.entries()
            Screen.Entries(lines, stale)
        } catch (refused: TidegateException) {
            Screen.Sorry("Too much at once.", refused.retryIn?.inWholeSeconds)
        } catch (error: IOException) {
            Screen.Sorry("No connection: ${error.message}", null)
        }
    }
}

/** Shows a timeline three times: `Timeline.kt <url of a server>`. */
suspend fun main(args: Array<String>) {
    val model = TimelineModel(TimelineRepository(args.firstOrNull() ?: "http://127.0.0.1:8080"))
    repeat(3) {
        model.refresh()
        println(model.state.value)
    }
}

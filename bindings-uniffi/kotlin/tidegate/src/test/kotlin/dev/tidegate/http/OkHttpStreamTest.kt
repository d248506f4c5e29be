package dev.tidegate.http

import dev.tidegate.Policy
import dev.tidegate.RequestOptions
import dev.tidegate.okhttp.okHttpInterceptor
import dev.tidegate.okhttp.report
import dev.tidegate.okhttp.tidegate
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext
import okhttp3.MediaType.Companion.toMediaType
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody
import okhttp3.RequestBody.Companion.toRequestBody
import okhttp3.ResponseBody
import okio.Buffer
import retrofit2.Response
import retrofit2.Retrofit
import retrofit2.http.Body
import retrofit2.http.Header
import retrofit2.http.POST
import retrofit2.http.Streaming
import retrofit2.http.Tag
import retrofit2.http.Url
import java.io.IOException
import java.util.concurrent.TimeUnit

private val JSON = "application/json".toMediaType()

private fun options(asked: Asked) = RequestOptions(idempotent = true, stream = asked.stream)

/** Reads a body as it comes. */
private fun read(body: ResponseBody, report: dev.tidegate.Report?, asked: Asked): Seen {
    val text = StringBuilder()
    val error = try {
        body.use {
            asked.delivered()
            val piece = Buffer()
            while (it.source().read(piece, 8_192) >= 0) {
                val some = piece.readUtf8()
                text.append(some)
                asked.went(some)
            }
        }
        null
    } catch (error: IOException) {
        error
    }
    return Seen("$text", error, report)
}

/** A blocking call on its caller's thread. */
class OkHttpStreamTest : StreamRules() {
    override fun ask(policy: Policy, asked: Asked): Seen {
        val client = OkHttpClient.Builder().readTimeout(60, TimeUnit.SECONDS).addInterceptor(policy.okHttpInterceptor()).build()
        val request = Request.Builder().url(Origin.url + asked.path).post(asked.question.toRequestBody(JSON)).tag(RequestOptions::class.java, options(asked))
        if (asked.accept != null) request.header("Accept", asked.accept)
        return try {
            val response = client.newCall(request.build()).execute()
            read(response.body, response.report, asked)
        } catch (error: IOException) {
            Seen("", error)
        } finally {
            client.connectionPool.evictAll()
        }
    }
}

/** Retrofit's suspending methods: the client's own threads carry the call out, and a coroutine reads. */
class RetrofitStreamTest : StreamRules() {
    private interface Api {
        @Streaming
        @POST
        suspend fun ask(@Url path: String, @Header("Accept") accept: String?, @Body body: RequestBody, @Tag options: RequestOptions): Response<ResponseBody>
    }

    override fun ask(policy: Policy, asked: Asked): Seen = runBlocking {
        val client = OkHttpClient.Builder().readTimeout(60, TimeUnit.SECONDS).tidegate(policy).build()
        val api = Retrofit.Builder().baseUrl(Origin.url).client(client).build().create(Api::class.java)
        try {
            val response = api.ask(Origin.url + asked.path, asked.accept, asked.question.toRequestBody(JSON), options(asked))
            val body = response.body() ?: response.errorBody()
            if (body == null) Seen("", null, response.raw().report)
            else withContext(Dispatchers.IO) { read(body, response.raw().report, asked) }
        } catch (error: IOException) {
            Seen("", error)
        } finally {
            client.connectionPool.evictAll()
            client.dispatcher.executorService.shutdown()
        }
    }
}

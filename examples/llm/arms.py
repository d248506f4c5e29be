"""Three ways to call the providers. They try the same ones in turn, and differ in what protects a step."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import openai

import tidegate
import tidegate.httpx
from providers import Provider, World

NAMES = {
    "sdk": "the SDK's own retries",
    "careful": "the same, and a timeout by hand",
    "tidegate": "Tidegate",
}
if find_spec("litellm"):
    NAMES["litellm"] = "LiteLLM's router"

HTTP: Any = import_module("httpx2" if int(openai.__version__.split(".")[0]) >= 3 else "httpx")
"""The client of the SDK; LiteLLM wants an older SDK."""


@dataclass
class Chat:
    """One question and its answer, in seconds since the run began."""

    began: float
    first: float | None = None
    ended: float | None = None
    tokens: int = 0
    whole: bool = False


class Arm:
    """One client for each provider, and the loop that tries them in turn."""

    def __init__(self, name: str, providers: list[Provider], world: World) -> None:
        self.name = name
        self.world = world
        self.turn = 0
        if name == "litellm":
            self.clients: list[Any] = [self._routed(providers)]
            return
        self.clients = [
            self._guarded(provider, number) if name == "tidegate" else self._plain(provider)
            for number, provider in enumerate(providers)
        ]

    def _plain(self, provider: Provider) -> openai.AsyncOpenAI:
        """As the SDK comes: two retries, on 408, 409, 429 and 5xx, after Retry-After or 0.5 s and more."""
        return openai.AsyncOpenAI(api_key="k", base_url=provider.url + "/v1")

    def _routed(self, providers: list[Provider]) -> Any:
        """One router over all providers with its defaults: two retries, five seconds of cooldown."""
        litellm: Any = import_module("litellm")
        litellm.suppress_debug_info = True
        return litellm.Router(
            model_list=[
                {
                    "model_name": "m",
                    "litellm_params": {"model": "openai/m", "api_key": "k", "api_base": one.url + "/v1"},
                }
                for one in providers
            ]
        )

    def _guarded(self, provider: Provider, number: int) -> openai.AsyncOpenAI:
        """The SDK over a policy: it knows the provider's limits, and leaves a failing one alone."""
        rate = max(1, round(0.95 * self.world.per_second))
        policy = tidegate.Policy(
            f"provider-{number}",
            engine=tidegate.Engine(seed=self.world.seed),
            attempt_timeout=self.world.patience,
            first_byte_timeout=self.world.first_token,
            idle_timeout=self.world.first_token,
            counts="sse_data",
            retry={"max_attempts": 1},  # the next provider is the retry
            rate_limit={
                "limits": [
                    f"requests: permits={rate} per=1s",
                    f"tokens: permits={60 * rate} per=1s weight=tokens",
                ]
            },
            cooldown={"base": 1.0, "max": 5.0},  # one 429 keeps all chats away until its Retry-After
            breaker={
                "consecutive": 1,  # there are others to ask
                "break_duration": 4.0,
                "max_break_duration": 5.0,
            },
        )
        limits = HTTP.Limits(max_connections=1000, max_keepalive_connections=100)  # the SDK's own
        counting = tidegate.tokens(output=24)  # the longest answer of these providers
        inner = HTTP.AsyncHTTPTransport(limits=limits)
        transport = tidegate.httpx.AsyncTransport(inner, policy, **counting)
        http = HTTP.AsyncClient(transport=transport)
        return openai.AsyncOpenAI(api_key="k", base_url=provider.url + "/v1", http_client=http, max_retries=0)

    async def chat(self, question: str, zero: float) -> Chat:
        """Asks one provider after the other until an answer is whole, or the user's patience ends."""
        chat = Chat(time.perf_counter() - zero)
        with suppress(TimeoutError, asyncio.TimeoutError):
            await asyncio.wait_for(self._ladder(question, chat, zero), self.world.patience)
        return chat

    async def _ladder(self, question: str, chat: Chat, zero: float) -> None:
        self.turn += 1
        first = self.turn % len(self.clients)
        order = self.clients[first:] + self.clients[:first]
        while True:
            waits = []
            for client in order:
                try:
                    await self._answer(client, question, chat, zero)
                except (
                    openai.APIError,
                    HTTP.HTTPError,
                    tidegate.TidegateError,
                    asyncio.TimeoutError,
                ) as error:
                    if chat.first is not None:
                        return  # its reader has seen words already
                    waits.append(getattr(error.__cause__, "retry_in", None) or 0.25)
                else:
                    return
            await asyncio.sleep(max(0.1, min(waits)))

    async def _answer(self, client: Any, question: str, chat: Chat, zero: float) -> None:
        messages = [{"role": "user", "content": question}]
        create = client.acompletion if self.name == "litellm" else client.chat.completions.create
        told = {"include_usage": True}  # what settles the limit of tokens
        stream = await create(model="m", messages=messages, stream=True, stream_options=told)
        try:
            pieces = aiter(stream)
            first = anext(pieces)
            if self.name in ("careful", "litellm"):
                first = asyncio.wait_for(first, self.world.first_token)
            await first
            chat.first = time.perf_counter() - zero
            chat.tokens = 1
            async for piece in pieces:
                chat.tokens += bool(piece.choices and piece.choices[0].delta.content)
            chat.ended = time.perf_counter() - zero
            chat.whole = True
        finally:
            close = getattr(stream, "close", None) or stream.aclose
            await close()

    async def close(self) -> None:
        """Closes all connections."""
        for client in self.clients:
            if self.name != "litellm":
                await client.close()

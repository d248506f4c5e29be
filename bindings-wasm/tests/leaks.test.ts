/**
 * Requests that end in every possible way, over real connections. Afterwards the process has no more sockets, timers and listeners than
 * before, and the server has no request in progress.
 */

import { getEventListeners } from "node:events";
import { Agent, request, fetch as undiciFetch } from "undici";
import { afterEach, expect, test } from "vitest";
import { type Fetch, type FetchOptions, type PolicyOptions, policy } from "../ts/node.js";
import { interceptor } from "../ts/undici.js";
import { scripted, stats, until } from "./support/server.js";
import { engine } from "./support/setup.js";

type Ask = (url: string, init: { signal: AbortSignal; tidegate: FetchOptions }) => Promise<string>;

/** The adapters over an agent of their own; each reads its responses to the end. */
const ADAPTERS: Record<string, (agent: Agent, settings: PolicyOptions) => Ask> = {
  fetch: (agent, settings) => {
    const send = (input: unknown, init: unknown) =>
      undiciFetch(input as string, { ...(init as object), dispatcher: agent });
    const { fetch } = policy({ ...settings, fetch: send as unknown as Fetch });
    return async (url, init) => (await fetch(url, init)).text();
  },
  run: (agent, settings) => {
    const some = policy(settings);
    return async (url, { signal }) =>
      (
        await some.run((attempt) => undiciFetch(url, { signal: attempt.signal, dispatcher: agent }), {
          signal,
        })
      ).text();
  },
  undici: (agent, settings) => {
    const dispatcher = agent.compose(interceptor(policy(settings)));
    return async (url, init) => (await request(url, { dispatcher, ...init } as object)).body.text();
  },
};

const ENDS: Record<string, PolicyOptions> = {
  deadline: { deadline: 60 },
  "attempt timeout": { attemptTimeout: 30, retry: { maxAttempts: 2, backoff: { base: 1 } } },
  hedge: { hedge: { delay: 10 }, deadline: 500 },
  retries: { preset: "http", retry: { backoff: { base: 1 } }, deadline: 500 },
};

const count = (kind: string) => process.getActiveResourcesInfo().filter((of) => of === kind).length;

let agent: Agent | undefined;
afterEach(async () => agent?.destroy());

test.each(Object.keys(ADAPTERS).flatMap((name) => Object.keys(ENDS).map((end) => [name, end])))(
  "%s, %s: no socket, timer or listener stays",
  async (name, end) => {
    const url = await scripted({
      rules: [
        { match: { path: "/slow" }, respond: { fault: "slow_body", body_bytes: 10_000, chunk_every: 20 } },
        { probability: 0.2, respond: { fault: "hang" } },
        { probability: 0.2, respond: { status: 503, body_bytes: 100_000 } },
        { probability: 0.1, respond: { fault: "reset" } },
      ],
      default: { delay: { kind: "uniform", min_ms: 0, max_ms: 80 }, body_bytes: 2000 },
    });
    const before = [count("TCPSocketWrap"), count("Timeout")];
    const lab = engine();
    agent = new Agent({ keepAliveTimeout: 60_000 });
    const ask = (ADAPTERS[name] as (typeof ADAPTERS)[string])(agent, { engine: lab, ...ENDS[end] });
    const caller = new AbortController();
    const calls = Array.from({ length: 40 }, async (_, n) => {
      const patience = new AbortController();
      if (n % 4 === 0) setTimeout(() => patience.abort(new Error("gave up")), n * 2);
      const signal = n % 4 === 0 ? patience.signal : caller.signal;
      await ask(`${url}${n % 7 === 0 ? "/slow" : "/x"}`, { signal, tidegate: {} }).catch(() => undefined);
    });
    const all = Promise.all(calls);
    // Calls without a deadline hang until their callers give up.
    setTimeout(() => caller.abort(new Error("enough")), 1500);
    await all;
    await until(() => lab.snapshot().lingering === 0); // stopped attempts have ended
    await until(async () => (await stats()).in_flight === 0);
    expect(getEventListeners(caller.signal, "abort")).toEqual([]);
    await agent.close(); // waits until all connections are closed
    await until(
      () => count("TCPSocketWrap") <= (before[0] as number) && count("Timeout") <= (before[1] as number) + 1,
    );
  },
);

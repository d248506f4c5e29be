/** Two ways to call the providers, the users that ask, and the figures of a run. */

import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";

export const NAMES = { sdk: "the SDK's own retries", tidegate: "Tidegate, with targets" };

/** The address that the SDK is given; `fetch` of the policy makes that of a provider of it. */
const BASE = "https://models.example";

/** The SDK over one policy: each provider is a target with its own limit and its own breaker. */
function guarded({ tidegate, OpenAI }, providers, world) {
  const urls = new Map(providers.map(({ url }, number) => [`provider-${number}`, url]));
  const document = {
    targets: {
      chat: {
        pick: "balanced",
        members: [...urls.keys()],
        default: {
          rate_limit: { permits: Math.max(1, Math.round(0.95 * world.perSecond)), per: "1s" },
          breaker: {
            failure_on: ["transient", "timeout", "never_sent", "throttled"],
            consecutive: 1,
            break_duration: "2s",
            max_break_duration: "5s",
          },
        },
      },
    },
    policy: {
      chat: {
        preset: "llm",
        targets: "chat",
        deadline: `${world.patience}s`,
        deadline_until: "delivery",
        first_byte_timeout: `${world.firstToken}s`,
        idle_timeout: "5s",
        counts: "sse_data",
      },
    },
  };
  const engine = new tidegate.Engine({ seed: world.seed });
  const policies = tidegate.load(document, {
    engine,
    fetch: (url, init) => fetch(String(url).replace(BASE, urls.get(tidegate.target()) ?? BASE), init),
  });
  const client = new OpenAI({
    apiKey: "k",
    baseURL: `${BASE}/v1`,
    maxRetries: 0,
    fetch: policies.get("chat").fetch,
  });
  return [client];
}

/** As the SDK comes: two retries, on 408, 409, 429 and 5xx, after Retry-After or 0.5 s and more. One client for each provider. */
function plain({ OpenAI }, providers) {
  return providers.map(({ url }) => new OpenAI({ apiKey: "k", baseURL: `${url}/v1` }));
}

/** The clients of an arm, and the loop that tries them in turn. */
class Arm {
  #clients;
  #turn = 0;
  #world;

  constructor(name, libraries, providers, world) {
    this.#world = world;
    this.#clients = name === "sdk" ? plain(libraries, providers) : guarded(libraries, providers, world);
  }

  /** Asks until an answer is whole, or the user's patience ends. */
  async chat(question, zero) {
    const now = () => (performance.now() - zero) / 1000;
    const chat = { began: now(), first: undefined, ended: undefined, whole: false };
    const signal = AbortSignal.timeout(this.#world.patience * 1000);
    this.#turn += 1;
    for (let at = this.#turn; !signal.aborted; at += 1) {
      const client = this.#clients[at % this.#clients.length];
      try {
        const messages = [{ role: "user", content: question }];
        const stream = await client.chat.completions.create({ model: "m", messages, stream: true }, { signal });
        for await (const { choices } of stream)
          if (choices[0]?.delta.content) chat.first ??= now();
        chat.ended = now();
        chat.whole = chat.first !== undefined;
        return chat;
      } catch (error) {
        if (chat.first !== undefined) return chat; // its reader has seen words already
        const again = at % this.#clients.length === this.#turn % this.#clients.length;
        const wait = error?.cause?.retryIn ?? (again ? 250 : 0);
        await sleep(Math.max(wait, 10), undefined, { signal }).catch(() => undefined);
      }
    }
    return chat;
  }
}

/** A source of random numbers with a seed (mulberry32). */
function dice(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** One user: asks, reads, asks again, until the run's time is over. */
async function user(arm, world, number, zero, chats) {
  const random = dice(1000 * world.seed + number);
  await sleep(random() * world.think * 1000);
  while (performance.now() - zero < world.span * 1000) {
    chats.push(await arm.chat("What does the tide do? ".repeat(1 + Math.floor(random() * 8)), zero));
    await sleep(world.think * (0.5 + random()) * 1000);
  }
}

/** One arm against providers that begin anew, after a chat that does not count: it loads code. */
export async function perform(name, libraries, providers, world) {
  for (const provider of providers) await provider.ask("PUT", "/script", { provider: {} });
  await new Arm(name, libraries, providers, world).chat("Hello.", performance.now());
  await Promise.all(providers.map((provider, number) => provider.ask("PUT", "/script", world.script(number))));
  const late = monitorEventLoopDelay({ resolution: 10 });
  late.enable();
  const before = process.cpuUsage();
  const zero = performance.now();
  const arm = new Arm(name, libraries, providers, world);
  const chats = [];
  const cut = async () => {
    for (const [moment, share] of [
      [world.cut[0], 0.1],
      [world.cut[1], 1],
    ]) {
      await sleep(Math.max(0, moment * 1000 - (performance.now() - zero)));
      await providers[1].ask("PUT", "/provider", { limits: world.limits(share) });
    }
  };
  const users = Array.from({ length: world.chats }, (_, number) => user(arm, world, number, zero, chats));
  await Promise.all([cut(), ...users]);
  const cpu = process.cpuUsage(before);
  late.disable();
  return {
    name,
    chats,
    counted: await Promise.all(providers.map((provider) => provider.counted())),
    cpu: (cpu.user + cpu.system) / 1e6,
    late: late.percentile(99) / 1e6,
  };
}

/** The nearest rank; not a number without values. */
export function p99(values) {
  const ordered = [...values].sort((one, other) => one - other);
  return ordered[Math.max(0, Math.ceil(0.99 * ordered.length) - 1)] ?? Number.NaN;
}

/** Success, refused share, requests per chat and p99 to the first token. */
export function figures({ chats, counted, cpu }) {
  const good = chats.filter(({ whole }) => whole);
  const sum = (of) => counted.reduce((all, one) => all + one[of], 0);
  return {
    chats: chats.length,
    success: good.length / Math.max(1, chats.length),
    refused: sum("refused") / Math.max(1, sum("requests")),
    requests: sum("requests") / Math.max(1, chats.length),
    p99: p99(good.map(({ began, first }) => first - began)),
    cpu: (cpu * 1e3) / Math.max(1, chats.length),
  };
}

/** One row for each arm. */
export function table(runs) {
  const share = (part) => `${(100 * part).toFixed(1)} %`;
  const rows = [["", "chats", "success", "refused, of requests", "requests per chat", "p99 to first token", "CPU per chat", "late, p99"]];
  for (const run of runs) {
    const at = figures(run);
    rows.push([
      NAMES[run.name],
      String(at.chats),
      share(at.success),
      share(at.refused),
      at.requests.toFixed(2),
      `${at.p99.toFixed(2)} s`,
      `${at.cpu.toFixed(0)} ms`,
      `${run.late.toFixed(0)} ms`,
    ]);
  }
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  const line = (row) => row.map((cell, at) => (at === 0 ? cell.padEnd(widths[at]) : cell.padStart(widths[at])));
  return rows.map((row) => line(row).join("  ")).join("\n");
}

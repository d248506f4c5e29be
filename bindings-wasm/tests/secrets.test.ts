/**
 * Secrets in requests stay private: a canary in an address, a header, a body or an error appears in no log line, event, metric, span,
 * journal or saved state of ours. And no route key can forge a log line.
 */

import { Registry } from "prom-client";
import { describe, expect, test, vi } from "vitest";
import { publish } from "../ts/diagnostics.js";
import { type Engine, explain, type PolicyOptions, policy, reportOf } from "../ts/node.js";
import { instrument } from "../ts/prometheus.js";
import { FakeClock } from "../ts/testing.js";
import { failure } from "./support/functions.js";
import { engine } from "./support/setup.js";

const CANARY = "canary-7f3a9";

/** All output of the engine, in every form. */
async function told(lab: Engine, work: () => Promise<void>): Promise<string> {
  const lines: unknown[] = [];
  const listening = lab.listen((event) => lines.push(event));
  const channels = publish(lab);
  const registry = new Registry();
  const metrics = instrument(registry, { engine: lab, maxRoutes: 50 });
  const spies = (["log", "info", "warn", "error", "debug"] as const).map((level) =>
    vi.spyOn(console, level).mockImplementation((...words: unknown[]) => void lines.push(words.map(String))),
  );
  await work();
  lines.push(await registry.metrics(), lab.snapshot(), lab.save(), lab.journals ? lab.journal() : "");
  for (const { call } of [...lines] as { call?: number }[])
    if (call !== undefined) lines.push(lab.explain(call));
  for (const spy of spies) spy.mockRestore();
  metrics.dispose();
  channels.dispose();
  listening.dispose();
  return JSON.stringify(lines);
}

const SETTINGS: Record<string, PolicyOptions> = {
  "all that repeats": { preset: "http", retry: { maxAttempts: 3, maxRetryAfter: 100 } },
  "a deadline": { deadline: 20 },
  "a breaker": { breaker: { consecutive: 1, breakDuration: 10_000 }, bulkhead: { maxConcurrency: 1 } },
  "a hedge": { hedge: { delay: 5 } },
  "a hold": { retry: { maxAttempts: 2, hold: true, maxRetryAfter: 60_000 } },
};

describe.each(Object.entries(SETTINGS))("%s", (name, settings) => {
  test.each([true, false])("S6: nothing of a request is told (journal: %s)", async (journal) => {
    const clock = new FakeClock();
    const lab = engine({ clock, journal });
    let sent = 0;
    const fetch = async (): Promise<Response> => {
      sent += 1;
      await clock.sleep(10);
      if (sent % 4 === 0) throw Object.assign(new Error(`reset ${CANARY}`), { code: "ECONNRESET" });
      const headers = { "retry-after": "1", "set-cookie": CANARY, location: `/${CANARY}` };
      return new Response(CANARY, { status: sent % 3 === 0 ? 200 : 503, headers, statusText: CANARY });
    };
    const some = policy({ engine: lab, name: "p", ...settings, fetch });
    const all = await told(lab, async () => {
      for (let n = 0; n < 8; n += 1) {
        const address = `http://user:${CANARY}@far.example/bot${CANARY}/x?token=${CANARY}#${CANARY}`;
        const init = {
          method: "PUT",
          body: CANARY,
          headers: { authorization: CANARY, "idempotency-key": CANARY },
        };
        const end = await clock.run(some.fetch(address, init).then(undefined, (error: Error) => error));
        const ours = end instanceof Error && end.name !== "Error";
        const words = [reportOf(end)?.note ?? "", ours ? `${end.stack} ${JSON.stringify(end)}` : ""];
        expect(words.join(), String(end)).not.toContain(CANARY);
        expect(JSON.stringify([explain(end), String(explain(end))]), String(end)).not.toContain(CANARY);
        if (end instanceof Response) await end.text();
        await clock.run(failure(some.run(() => Promise.reject(new TypeError(CANARY)))));
        await clock.advance(20);
      }
    });
    expect(sent, name).toBeGreaterThan(0);
    expect(all).toContain("far.example");
    expect(all).not.toContain(CANARY);
  });
});

/** Keys that would start log lines, colour a terminal, or reverse text. */
const KEYS = [
  "a\nERROR forged line",
  "a\r\nERROR forged line",
  "\u001b[31mred\u001b[0m",
  "\u009b31mred",
  "left\u202eright",
  "iso\u2066lated\u2069",
  "line\u2028separator",
  "byte order\ufeffmark",
  "nul\u0000byte",
];
/** Characters that no log line may contain: control characters, line terminators, and marks that reverse text. */
const FORGING = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/u;

/** Lines of ours, joined into one. */
const flat = (text: unknown) => String(text).replaceAll("\n", "");

test.each(KEYS.map((key) => [JSON.stringify(key), key]))(
  "S8: a route %s forges no line of a log",
  async (_, key) => {
    const lab = engine({ journal: true });
    const some = policy({
      engine: lab,
      name: "p",
      deadline: 1000,
      rateLimit: { permits: 1, per: 1000 },
    });
    const caller = some.at({ route: key });
    await caller.run(() => 1);
    const error = (await failure(caller.run(() => 1))) as Error;
    expect(error.message).not.toMatch(FORGING);
    expect(error.message).toContain('policy "p", route "');
    for (const text of [lab.explain(error), some.explain()]) expect(flat(text)).not.toMatch(FORGING);
    expect(flat(lab.journal()), "which is replayed, and keeps the rest as it is").not.toMatch(/\p{Cc}/u);
    expect(lab.journal()).not.toMatch(/^ERROR/m);
    const registry = new Registry();
    const metrics = instrument(registry, { engine: lab, maxRoutes: 50 });
    await failure(caller.run(() => 1));
    expect(await registry.metrics()).not.toMatch(/^ERROR/m);
    metrics.dispose();
  },
);

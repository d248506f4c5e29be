/** Fallbacks: their values, and the errors for which they are used (semantics 7.4). */

import { describe, expect, test, vi } from "vitest";
import type * as tidegate from "../ts/node.js";
import { policy } from "../ts/node.js";
import { FakeClock } from "../ts/testing.js";
import { engine } from "./support/setup.js";

const reset = () => Object.assign(new Error("reset"), { code: "ECONNRESET" });
const fails = (error: unknown) => async () => {
  throw error;
};

describe("fallback", () => {
  test("stands in for outages and refusals, and not for a caller who gave up", async () => {
    const own = engine({ clock: new FakeClock() });
    const heard: string[] = [];
    own.listen((event) => heard.push(event.type));
    const some = policy({
      engine: own,
      breaker: { consecutive: 1, breakDuration: 1000 },
      fallback: (error) => `instead of ${(error as Error).name}`,
    });
    expect(await some.run<string>(fails(reset()))).toBe("instead of Error");
    expect(await some.run(() => "never")).toBe("instead of BreakerOpen");
    const controller = new AbortController();
    controller.abort(new Error("gone"));
    await expect(some.run(() => "never", { signal: controller.signal })).rejects.toThrow("gone");
    expect(heard.filter((type) => type === "fallback")).toHaveLength(2);
  });

  test("stands in for failures that only their status or their cause tells (J2)", async () => {
    const some = policy({ engine: engine(), retry: { maxAttempts: 1 }, fallback: () => "instead" });
    const outages = [
      { status: 503 },
      { statusCode: 429 },
      { response: { status: 502 } },
      { $metadata: { httpStatusCode: 503 } },
      new Error("the client's own", { cause: reset() }),
    ];
    for (const outage of outages) expect(await some.run<string>(fails(outage))).toBe("instead");
    for (const mistake of [{ status: 404 }, { code: "ENOENT" }, { code: "EAUTH" }]) {
      await expect(some.run(fails(mistake))).rejects.toBe(mistake);
    }
  });

  test("is counted, and so is one that fails itself", async () => {
    let broken = false;
    const some = policy({
      engine: engine(),
      retry: { maxAttempts: 1 },
      fallback: () => {
        if (broken) throw new Error("broken");
        return "instead";
      },
    });
    const counts = () => {
      const { fallbacks, fallbackFailures } = some.snapshot();
      return [fallbacks, fallbackFailures];
    };
    expect(counts()).toEqual([0, 0]);
    expect(await some.run(() => "well")).toBe("well");
    for (let n = 0; n < 2; n += 1) expect(await some.run<string>(fails(reset()))).toBe("instead");
    expect(counts()).toEqual([2, 0]);
    broken = true;
    await expect(some.run(fails(reset()))).rejects.toThrow("broken");
    expect(counts()).toEqual([2, 1]);
  });

  test("hides no mistake, unless classify has called it so", async () => {
    const some = policy({ engine: engine(), retry: {}, fallback: () => "instead" });
    await expect(some.run(fails(new TypeError("a bug")))).rejects.toThrow("a bug");
    const told: Record<string, string> = { SyntaxError: "permanent", RangeError: "ignored" };
    const judged = policy({
      engine: engine(),
      retry: {},
      classify: (it) => told[(it as Error)?.name],
      fallback: () => "instead",
    });
    expect(await judged.run<string>(fails(new SyntaxError("told")))).toBe("instead");
    await expect(judged.run(fails(new RangeError("told")))).rejects.toThrow("told");
    await expect(judged.run(fails(new TypeError("untold")))).rejects.toThrow("untold");
  });

  test("may be said to stand in for others", async () => {
    const fallbackOn = (error: unknown) => error instanceof RangeError;
    const some = policy({
      engine: engine(),
      retry: { maxAttempts: 1 },
      fallback: () => "instead",
      fallbackOn,
    });
    expect(await some.run<string>(fails(new RangeError("mine")))).toBe("instead");
    await expect(some.run(fails(reset()))).rejects.toThrow("reset");
    expect(() => policy({ engine: engine(), retry: {}, fallbackOn })).toThrow(/fallbackOn = .*no fallback/s);
  });

  test("a fallbackOn that breaks is told once, and breaks no call", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const fallbackOn = () => {
      throw new Error("mine");
    };
    const some = policy({ engine: engine(), retry: { maxAttempts: 1 }, fallback: () => 1, fallbackOn });
    await expect(some.run(fails(reset()))).rejects.toThrow("reset");
    await expect(some.run(fails(reset()))).rejects.toThrow("reset");
    expect(warn).toHaveBeenCalledTimes(1);
    warn.mockRestore();
  });

  test("is awaited, counted by its end, and what it throws is what the caller gets", async () => {
    const own = engine({ clock: new FakeClock() });
    const heard: tidegate.TidegateEvent[] = [];
    own.listen((event) => heard.push(event));
    let good = true;
    const fallback = async () => {
      if (!good) throw new Error("no cache either");
      return "cached";
    };
    const some = policy({ engine: own, retry: { maxAttempts: 1 }, fallback });
    expect(await some.at({ route: "a" }).run<string>(fails(reset()))).toBe("cached");
    good = false;
    await expect(some.run(fails(reset()), { route: "b" })).rejects.toThrow("no cache either");
    const told = heard.filter((event) => event.type === "fallback");
    expect(told.map(({ route, kind }) => [route, kind])).toEqual([
      ["a", "ok"],
      ["b", "permanent"],
    ]);
  });
});

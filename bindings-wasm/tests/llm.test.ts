/** The demo of `examples/llm/node`: its figures, and a short run of it. */

import OpenAI from "openai";
import { expect, test } from "vitest";
// @ts-expect-error the example is plain JavaScript
import { figures, p99, perform, table } from "../../examples/llm/node/chats.mjs";
// @ts-expect-error the same
import { Provider, World } from "../../examples/llm/node/providers.mjs";
import * as tidegate from "../ts/node.js";

const COUNTED = [
  { requests: 3, refused: 1 },
  { requests: 1, refused: 0 },
];

test("figures are of whole answers", () => {
  const chats = [
    { began: 0, first: 0.5, ended: 1, whole: true },
    { began: 1, first: 3, ended: 4, whole: true },
    { began: 2, first: 2.5, whole: false },
    { began: 3, whole: false },
  ];
  const run = { name: "tidegate", chats, counted: COUNTED, cpu: 0.4, late: 1 };
  expect(figures(run)).toEqual({ chats: 4, success: 0.5, refused: 0.25, requests: 1, p99: 2, cpu: 100 });
  expect(table([run])).toMatch(/Tidegate, with targets +4 +50\.0 % +25\.0 % +1\.00 +2\.00 s/);
  expect([p99([]), p99([3, 1])]).toEqual([Number.NaN, 3]);
});

test("two providers can carry the load, and the faults follow each other", () => {
  const world = new World();
  const edges: number[] = [...world.outage, ...world.cut, ...world.stalls, world.span];
  expect([...edges].sort((one, other) => one - other)).toEqual(edges);
  expect(2 * world.perSecond).toBeGreaterThan(world.chats / (world.think + 0.8));
});

test("a short run", async () => {
  const program = String(process.env["TIDEGATE_ORIGIN"]);
  const world = new World({ chats: 8, span: 2, think: 0.5 });
  const providers = await Promise.all([0, 1, 2].map(() => Provider.start(program)));
  try {
    for (const name of ["sdk", "tidegate"]) {
      const run = await perform(name, { tidegate, OpenAI }, providers, world);
      const at = figures(run);
      expect(at.chats).toBeGreaterThanOrEqual(8);
      expect(at.success).toBeGreaterThan(0.5);
      expect(at.requests * at.chats).toBeGreaterThanOrEqual(8);
    }
  } finally {
    await Promise.all(providers.map((provider: { end(): Promise<void> }) => provider.end()));
  }
});

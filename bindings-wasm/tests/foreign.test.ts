/** Foreign objects: classes of another copy, another realm or another package, and mocks. */

import nodeFetch, { Request as NodeRequest } from "node-fetch";
import { FormData as UndiciFormData, Request as UndiciRequest, fetch as undiciFetch } from "undici";
import { expect, test, vi } from "vitest";
import { isReplayable } from "../ts/fetch/body.js";
import { DeadlineExceeded, policy, RateLimited, Rejected, reportOf, TidegateError } from "../ts/node.js";
import { log, origin } from "./support/server.js";

const QUICK = { retry: { backoff: { base: 1 } } };

test("a Request of undici's own is repeated as the global one is (J8)", async () => {
  const url = await origin(503, 200);
  const { fetch } = policy({
    preset: "http",
    ...QUICK,
    fetch: undiciFetch as unknown as typeof globalThis.fetch,
  });
  const request = new UndiciRequest(url, { method: "PUT", body: "stock" });
  const answer = await fetch(request as unknown as Request);
  expect(answer.status).toBe(200);
  expect((await log()).map(({ method, body }) => [method, body])).toEqual([
    ["PUT", "stock"],
    ["PUT", "stock"],
  ]);
  await answer.text();
});

test("a Request of node-fetch, whose signal is null without one, is repeated too", async () => {
  const url = await origin(503, 200);
  const { fetch } = policy({ preset: "http", ...QUICK, fetch: nodeFetch as never });
  const request = new NodeRequest(url, { method: "PUT", body: "stock" });
  expect(request.signal).toBeNull();
  const answer = await fetch(request as never);
  expect([answer.status, (await log()).map(({ method, body }) => [method, body])]).toEqual([
    200,
    [
      ["PUT", "stock"],
      ["PUT", "stock"],
    ],
  ]);
  await answer.text();
});

test("a body of another realm's class can be sent again", () => {
  expect(isReplayable(new UndiciFormData())).toBe(true);
  expect(isReplayable(new ReadableStream())).toBe(false);
  expect(isReplayable({ [Symbol.asyncIterator]: () => undefined })).toBe(false);
});

test("one Response for every call, as mocks give it, is delivered with its body (J13)", async () => {
  const one = new Response("sold out", { status: 503 });
  const send = vi.fn().mockResolvedValue(one);
  const { fetch } = policy({ preset: "http", ...QUICK, fetch: send });
  const answer = await fetch("http://stock.test/");
  expect([answer.status, await answer.text(), send.mock.calls.length]).toEqual([503, "sold out", 3]);
  // The next call gets the object that was already read: its status counts, and reading it raises a clear error.
  const again = await fetch("http://stock.test/");
  expect([again.status, again.bodyUsed]).toEqual([503, true]);
});

test("a Response too large to keep, given to two attempts, is a mistake with its way out (J13)", async () => {
  const large = new Response("x".repeat(100_000), { status: 503, headers: { "content-length": "100000" } });
  const { fetch } = policy({ preset: "http", ...QUICK, fetch: () => Promise.resolve(large) });
  await expect(fetch("http://stock.test/")).rejects.toThrow("make a new one for each call");
});

test("a fetch that has read its answer may still hand it on", async () => {
  const { fetch } = policy({
    preset: "http",
    ...QUICK,
    fetch: async () => {
      const response = new Response("read already", { status: 404 });
      await response.text();
      return response;
    },
  });
  const answer = await fetch("http://stock.test/");
  expect([answer.status, reportOf(answer)?.attempts]).toEqual([404, 1]);
});

test("errors of the CommonJS copy are instances of the classes of this one (J9)", async () => {
  vi.resetModules();
  const other = (await import(
    "../ts/errors/errors.js?copy" as string
  )) as typeof import("../ts/errors/errors.js");
  expect(other.RateLimited).not.toBe(RateLimited);
  const error = new other.RateLimited("no tokens");
  expect(error instanceof RateLimited && error instanceof Rejected && error instanceof TidegateError).toBe(
    true,
  );
  expect(error instanceof DeadlineExceeded).toBe(false);
  expect(new Error("of the user") instanceof TidegateError).toBe(false);
  class Own extends RateLimited {}
  expect(error instanceof Own).toBe(false);
  expect(new Own("own") instanceof other.RateLimited).toBe(true);
});

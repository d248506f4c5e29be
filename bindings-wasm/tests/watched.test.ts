/** Responses of Node whose body is watched without a second stream: they are read as any other, and the call lasts until then. */

import { describe, expect, test } from "vitest";
import { Guard } from "../ts/fetch/body.js";
import { type Engine, type PolicyOptions, policy } from "../ts/node.js";
import { collected } from "./support/garbage.js";
import { origin } from "./support/server.js";
import { engine } from "./support/setup.js";

const live = (lab: Engine) => lab.snapshot().live;

async function asked(body: string, headers: Record<string, string> = {}) {
  const url = await origin({ status: 200, body, headers: Object.entries(headers) });
  const lab = engine();
  const some = policy({ engine: lab, retry: {}, bulkhead: { maxConcurrency: 1 } });
  return { lab, url, response: await some.fetch(url), bare: await fetch(url) };
}

const FORM = new URLSearchParams({ a: "1", b: "ü" }).toString();
const READERS: Record<string, (response: Response) => Promise<unknown>> = {
  text: (response) => response.text(),
  json: (response) => response.json(),
  arrayBuffer: async (response) => [...new Uint8Array(await response.arrayBuffer())],
  blob: async (response) => {
    const blob = await response.blob();
    return [blob.type, blob.size, await blob.text()];
  },
  "body, by a reader": async (response) => {
    let text = "";
    for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>)
      text += Buffer.from(chunk);
    return text;
  },
  "a clone and the rest": async (response) => {
    const copy = response.clone();
    return [await copy.text(), await response.text(), copy.url === response.url];
  },
  "a new response": (response) => new Response(response.body, response).text(),
};

test.each(Object.entries(READERS))("%s gives what a bare fetch gives, and ends the call", async (_, read) => {
  const { lab, response, bare } = await asked('\ufeff{"a":[1,2,"ü"]}', {
    "content-type": "application/json; x=y",
  });
  expect(live(lab)).toBe(1);
  expect(await read(response)).toEqual(await read(bare));
  expect([response.bodyUsed, live(lab)]).toEqual([true, 0]);
});

test("a form is read as of a bare fetch", async () => {
  const { response, bare } = await asked(FORM, { "content-type": "application/x-www-form-urlencoded" });
  expect([...(await response.formData())]).toEqual([...(await bare.formData())]);
});

test("it is the response of fetch itself, with nothing of its own", async () => {
  const { response, bare, url } = await asked("x", { "x-own": "1" });
  expect(response).toBeInstanceOf(Response);
  expect([response.constructor, Object.keys(response)]).toEqual([Response, Object.keys(bare)]);
  expect([response.url, response.type, response.ok, response.bodyUsed]).toEqual([
    url,
    bare.type,
    true,
    false,
  ]);
  expect(() => response.headers.set("a", "b")).toThrow(TypeError);
  expect(await response.text()).toBe(await bare.text());
  await expect(response.text()).rejects.toThrow(TypeError);
  await expect(response.json()).rejects.toThrow(TypeError);
  expect(() => response.clone()).toThrow(TypeError);
});

test("on other platforms, where a second stream watches the body, it has no keys of its own either (J18)", async () => {
  const bare = await fetch(await origin({ status: 200, body: "x" }));
  const said = (of: Response) => [of.status, of.url, of.type, of.redirected, of.constructor];
  const [response] = Guard.of(bare, { read() {}, failed() {} });
  expect([Object.keys(response), said(response)]).toEqual([Object.keys(bare), said(bare)]);
  expect(await response.text()).toBe("x");
});

async function drained(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  while (!(await reader.read()).done);
}

describe("a deadline during the body", () => {
  const late = { "late reader": 0, "reader at work": 1, "body taken": 2, "clone taken": 3 };
  test.each(Object.entries(late))("%s: ends with its error", async (_, how) => {
    const url = await origin({ fault: "slow_body", body_bytes: 10_000, chunk_every: 20 });
    const lab = engine();
    const some = policy({ engine: lab, deadline: 1000 });
    const response = await some.fetch(url);
    const taken = how === 2 ? response.body?.getReader() : undefined;
    const copy = how === 3 ? response.clone() : undefined;
    const reading =
      how === 0
        ? undefined
        : ((taken === undefined ? undefined : drained(taken)) ?? copy?.text() ?? response.text());
    reading?.catch(() => undefined);
    if (how === 0) await new Promise((go) => setTimeout(go, 1200));
    const error = await (reading ?? response.text()).then(
      () => "nothing",
      (it: Error) => it.name,
    );
    expect([error, live(lab)]).toEqual(["DeadlineExceeded", 0]);
    if (how === 3) await expect(response.text()).rejects.toThrow("the deadline passed");
  });
});

const uses: Record<string, (response: Response) => unknown> = {
  body: (response) => response.body,
  clone: (response) => response.clone(),
  reader: (response) => response.body?.getReader(),
};
const bounded: Record<string, PolicyOptions> = {
  "": { retry: {} },
  ", with idleTimeout": { idleTimeout: 60_000 },
};

describe.each(Object.entries(bounded))("collection%s", (_, options) => {
  test.each(Object.entries(uses))(
    "a response whose %s was asked for is over once all are collected",
    async (_, use) => {
      const url = await origin(200);
      const other = engine();
      await (async () => {
        use(await policy({ engine: other, ...options }).fetch(url));
      })();
      await collected(() => live(other) === 0);
      expect(live(other)).toBe(0);
    },
  );

  test("a body that its reader keeps without the response can be read, and the slot lasts until then", async () => {
    const url = await origin({ status: 200, body: "tea" });
    const other = engine();
    const gone: string[] = [];
    const registry = new FinalizationRegistry<string>((it) => gone.push(it));
    const body = await (async () => {
      const response = await policy({ engine: other, ...options }).fetch(url);
      registry.register(response, "response");
      return response.body as ReadableStream<Uint8Array>;
    })();
    await collected(() => gone.length > 0);
    expect([gone, live(other)]).toEqual([["response"], 1]);
    expect([await new Response(body).text(), live(other)]).toEqual(["tea", 0]);
  });
});

test("on other platforms too a body can be read without its response, within the deadline", async () => {
  const gone: string[] = [];
  const registry = new FinalizationRegistry<string>((it) => gone.push(it));
  const ended: string[] = [];
  const take = async () => {
    const bare = await fetch(await origin({ status: 200, body: "tea" }));
    const told = { read: () => ended.push("read"), failed: () => ended.push("failed") };
    const [response, guard] = Guard.of(bare, told);
    registry.register(response, "response");
    return [response.body as ReadableStream<Uint8Array>, guard] as const;
  };
  const [kept, guard] = await take();
  await collected(() => gone.length > 0);
  expect([gone, ended]).toEqual([["response"], []]);
  guard.fail(new RangeError("late"));
  await expect(new Response(kept).text()).rejects.toThrow("late");
  await take();
  await collected(() => ended.length > 0);
  expect(ended).toEqual(["read"]);
});

test("a response that nobody reads is over once it is collected", async () => {
  const url = await origin(200);
  const other = engine();
  await (async () => {
    const dropped = await policy({ engine: other, retry: {} }).fetch(url);
    expect([dropped.status, live(other)]).toEqual([200, 1]);
  })();
  await collected(() => live(other) === 0);
  expect(live(other)).toBe(0);
});

/** The faulty origin, from inside a test. */

import { inject } from "vitest";

/** A request as the origin logs it. */
export interface Logged {
  readonly path: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly body_length: number;
  readonly connection: number;
}

/** An answer, as the origin's README describes it; a number is a status. */
export type Answer = number | Readonly<Record<string, unknown>>;

async function control(method: string, path: string, body?: unknown): Promise<unknown> {
  const init = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await globalThis.fetch(inject("control") + path, { method, ...init });
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return text === "" ? undefined : JSON.parse(text);
}

/** The answers to the requests of a path of this test's own, in order. */
export async function origin(...answers: Answer[]): Promise<string> {
  const path = "/x";
  await control("PUT", "/script", {
    sequences: {
      [path]: answers.map((answer) => (typeof answer === "number" ? { status: answer } : answer)),
    },
  });
  return inject("url") + path;
}

/** A script of the origin's own. */
export async function scripted(script: object): Promise<string> {
  await control("PUT", "/script", script);
  return inject("url");
}

/** What it has received, oldest first. */
export async function log(): Promise<Logged[]> {
  const entries = (await control("GET", "/log")) as (Omit<Logged, "headers"> & {
    headers: [string, string][];
  })[];
  return entries.map((entry) => ({ ...entry, headers: Object.fromEntries(entry.headers) }));
}

/** Its counts. */
export async function stats(): Promise<{ requests: number; connections_open: number; in_flight: number }> {
  return (await control("GET", "/stats")) as {
    requests: number;
    connections_open: number;
    in_flight: number;
  };
}

/** Waits until something is so. */
export async function until(so: () => Promise<boolean> | boolean, ms = 60_000): Promise<void> {
  const end = performance.now() + ms;
  while (!(await so())) {
    if (performance.now() > end) throw new Error(`not within ${ms} ms: ${so}`);
    await new Promise((done) => setTimeout(done, 5));
  }
}

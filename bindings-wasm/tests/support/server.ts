/** The faulty origin, for use in a test. */

import { inject } from "vitest";

/** A request in the origin's log. */
export interface Logged {
  readonly path: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly body_length: number;
  readonly connection: number;
}

/** A response, as the origin's README describes it; a number is a status. */
export type Answer = number | Readonly<Record<string, unknown>>;

async function control(method: string, path: string, body?: unknown): Promise<unknown> {
  const init = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await globalThis.fetch(inject("control") + path, { method, ...init });
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return text === "" ? undefined : JSON.parse(text);
}

/** Sets the origin's responses, in order, and returns the address to request. */
export async function origin(...answers: Answer[]): Promise<string> {
  const path = "/x";
  await control("PUT", "/script", {
    sequences: {
      [path]: answers.map((answer) => (typeof answer === "number" ? { status: answer } : answer)),
    },
  });
  return inject("url") + path;
}

/** Gives the origin a whole script. */
export async function scripted(script: object): Promise<string> {
  await control("PUT", "/script", script);
  return inject("url");
}

/** The requests that it has received, oldest first. */
export async function log(): Promise<Logged[]> {
  const entries = (await control("GET", "/log")) as (Omit<Logged, "headers"> & {
    headers: [string, string][];
  })[];
  return entries.map((entry) => ({ ...entry, headers: Object.fromEntries(entry.headers) }));
}

/** Its counters. */
export async function stats(): Promise<{ requests: number; connections_open: number; in_flight: number }> {
  return (await control("GET", "/stats")) as {
    requests: number;
    connections_open: number;
    in_flight: number;
  };
}

/** Waits until the condition holds. */
export async function until(so: () => Promise<boolean> | boolean, ms = 60_000): Promise<void> {
  const end = performance.now() + ms;
  while (!(await so())) {
    if (performance.now() > end) throw new Error(`not within ${ms} ms: ${so}`);
    await new Promise((done) => setTimeout(done, 5));
  }
}

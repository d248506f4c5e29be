/** Page-by-page reading of an engine; the event loop runs between two pages (docs/adr/0022-bounded-steps.md). */

import type { Engine } from "./engine.js";
import { want } from "./module.js";
import { said } from "./native.js";

/** What can be read in pages (`src/pages.rs`). */
export const SNAPSHOT = 0;
export const SAVE = 1;
export const SERIES = 2;

// The timer function is captured at load time: under the fake timers of a test framework, reading would never end.
const soon: (go: () => void) => unknown =
  (globalThis as { setImmediate?: (go: () => void) => unknown }).setImmediate ?? globalThis.setTimeout;

/** Reads all pages, each at most about 200 µs of work in the module, and calls `take` with the parsed JSON of each page that has any. */
export async function readPages(
  engine: Engine,
  what: number,
  take: (written: unknown) => void,
): Promise<void> {
  if (!engine.full) {
    engine.wantFull();
    await want("full");
  }
  const reader = engine.whole("a reading in pages").pages(engine.handle, what);
  while (true) {
    const more = engine.native.page(engine.handle, reader, engine.time());
    const text = said();
    if (text !== "") take(JSON.parse(text));
    if (more === 0) return;
    await new Promise<void>((go) => soon(go));
  }
}

/** Reads a snapshot or a saved state: its pages are lists of routes, and the last one is an object with everything else. */
export async function readRoutes<T extends object>(
  engine: Engine,
  what: number,
): Promise<T & { routes: unknown[] }> {
  const routes: unknown[] = [];
  let rest = {} as T;
  await readPages(engine, what, (written) => {
    if (Array.isArray(written)) routes.push(...written);
    else rest = written as T;
  });
  return { ...rest, routes };
}

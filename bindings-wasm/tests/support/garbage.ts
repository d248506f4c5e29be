/** Garbage collection on request: vitest runs with `--expose-gc`. */

/** Collects garbage until the condition holds. */
export async function collected(so: () => boolean, ms = 10_000): Promise<void> {
  const end = performance.now() + ms;
  const { gc } = globalThis as { gc?: () => void };
  if (gc === undefined) throw new Error("there is no gc: run with --expose-gc");
  do {
    gc();
    await new Promise((done) => setTimeout(done, 5));
    if (performance.now() > end) throw new Error(`not collected within ${ms} ms: ${so}`);
  } while (!so());
}

/** The module of the parts (`parts/src`), separate from the engine's: its source, and the transfer of texts to and from it. */

import { type Code, importsOf } from "../engine/module.js";
import { transfer } from "../engine/native.js";
import { isModule } from "../engine/platform.js";
import { ModuleUnavailable, NotReady } from "../errors/errors.js";
import type { Native } from "./surface_gen.js";

/** The source of the module: synchronous, or a download. */
export interface Source {
  readonly now?: (() => Code) | undefined;
  readonly later?: (() => Promise<Code>) | undefined;
}

let source: Source = {};
let native: Native | undefined;
let coming: Promise<void> | undefined;

/** Sets the source of the module; an entry calls it. */
export function provide(from: Source): void {
  if (source.now === undefined || from.now !== undefined) source = from;
}

function start(code: Code): void {
  const module = isModule(code) ? code : new WebAssembly.Module(code);
  native ??= new WebAssembly.Instance(module, importsOf(module)).exports as unknown as Native;
}

/**
 * The module, instantiated on first use.
 *
 * @throws NotReady If it must be fetched and has not been.
 */
export function load(): Native {
  if (native === undefined && source.now !== undefined) {
    try {
      start(source.now());
    } catch (error) {
      if (source.later === undefined) throw error;
      source = { later: source.later };
    }
  }
  if (native === undefined) {
    throw new NotReady('a part needs its WebAssembly module: await ready() of "tidegate/parts" first');
  }
  return native;
}

/**
 * Resolves when the parts' module is loaded. Pages must fetch it before they make the first part. Elsewhere it is available at once.
 *
 * @throws ModuleUnavailable If it cannot be loaded; the next call tries again.
 * @example
 * ```ts
 * await parts.ready();
 * const bucket = new parts.TokenBucket({ permits: 1, per: 1000 }, 0);
 * ```
 */
export async function ready(): Promise<void> {
  try {
    load();
  } catch (error) {
    const { later } = source;
    if (later === undefined) throw error;
    coming ??= fetched(later).finally(() => {
      coming = undefined;
    });
    await coming;
  }
}

async function fetched(later: () => Promise<Code>): Promise<void> {
  try {
    const code = await later();
    start(isModule(code) ? code : await WebAssembly.compile(code));
  } catch (cause) {
    const text = `the parts' module parts.wasm cannot be loaded: ${(cause as Error).message}`;
    throw new ModuleUnavailable(text, { cause });
  }
}

/** The transfer of texts to and from it. */
export const { say, about, pieces, said, stage } = transfer(load);

/** A cache of route keys by number, for events: each key is read from the module once. */

import { type Native, said } from "./native.js";

/** Most keys in the cache. */
const MOST = 1000;

export class RouteKeys {
  readonly #keys = new Map<number, string>();

  /** Clears the cache: another module numbers routes anew. */
  clear(): void {
    this.#keys.clear();
  }

  /** The key of a route; undefined if the engine has evicted it. */
  of(native: Native, handle: number, route: number): string | undefined {
    let found = this.#keys.get(route);
    if (found === undefined) {
      native.key_of(handle, route);
      found = said();
      if (this.#keys.size >= MOST) this.#keys.clear();
      if (found !== "") this.#keys.set(route, found);
    }
    return found || undefined;
  }
}

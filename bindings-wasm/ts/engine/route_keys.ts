/** The keys of routes by their numbers, for events: the module is asked for each once. */

import { type Native, said } from "./native.js";

/** How many are kept. */
const MOST = 1000;

export class RouteKeys {
  readonly #keys = new Map<number, string>();

  /** Forgets all: another module numbers routes anew. */
  clear(): void {
    this.#keys.clear();
  }

  /** The key of an engine's route; undefined where the engine has evicted the route. */
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

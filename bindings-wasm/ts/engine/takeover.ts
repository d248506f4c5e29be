/**
 * The full module takes over from the small one while calls are in flight (docs/adr/0025-one-import.md).
 *
 * An engine is a function of its seed and its inputs, and both modules compute the same function. So the JavaScript half records an
 * engine's inputs while the small module is in use, and replays them into the full module once that is loaded. The full engine then has
 * the same state with the same ids, and every call continues.
 */

import type { Engine } from "./engine.js";
import { type Native, type Pair, say, stage } from "./native.js";
import { reportWall } from "./wall.js";

/** Number of recorded inputs (about 2,500 calls) after which the full module is fetched, to end the recording. */
export const MANY = 5_000;
/** Most inputs recorded if the full module never loads. */
export const MOST = 100_000;
/** Number of inputs after which a replay publishes the records; an engine keeps as many records. */
const BATCH = 200;

const [POLICY, ROUTE, BEGIN, ON, WAKES, FELL_BACK, SUBSCRIBE, LINK, MEASURE] = [0, 1, 2, 3, 4, 5, 6, 7, 8];

/** The inputs of an engine under the small module. */
export class Inputs {
  /** The inputs, each as its kind followed by its numbers. */
  #numbers: number[] = [];
  #texts: (string | readonly Pair[])[] = [];
  #count = 0;
  readonly #many: () => void;

  /** `many` is called after every 5,000 inputs (`MANY`). */
  constructor(many: () => void) {
    this.#many = many;
  }

  /** Whether more than `MOST` inputs came, so that the recording was discarded. */
  get lost(): boolean {
    return this.#count > MOST;
  }

  #add(numbers: readonly number[], ...texts: (string | readonly Pair[])[]): void {
    this.#count += 1;
    if (this.#count % MANY === 0) this.#many();
    if (this.lost) {
      this.#numbers = [];
      this.#texts = [];
      return;
    }
    this.#numbers.push(...numbers);
    this.#texts.push(...texts);
  }

  policy(name: string, pairs: readonly Pair[]): void {
    this.#add([POLICY], name, pairs);
  }

  route(policy: number, key: string, now: number): void {
    this.#add([ROUTE, policy, now], key);
  }

  wakes(): void {
    this.#add([WAKES]);
  }

  fellBack(route: number, ok: boolean, now: number): void {
    this.#add([FELL_BACK, route, Number(ok), now]);
  }

  subscribe(on: boolean): void {
    this.#add([SUBSCRIBE, Number(on)]);
  }

  link(state: number, now: number): void {
    this.#add([LINK, state, now]);
  }

  measure(maxRoutes: number): void {
    this.#add([MEASURE, maxRoutes]);
  }

  /** A wrapper of the module that records its calls. */
  recording(native: Native): Native {
    return {
      ...native,
      begin: (engine, route, flags, remaining, parent, target, now) => {
        this.#add([BEGIN, route, flags, remaining, parent, target, now]);
        return native.begin(engine, route, flags, remaining, parent, target, now);
      },
      on: (engine, call, event, now) => {
        this.#add([ON, call, event, now]);
        return native.on(engine, call, event, now);
      },
    };
  }

  /** Replays all recorded inputs into an engine of the full module. */
  replay(engine: Engine): void {
    const { native, handle } = engine;
    const texts = this.#texts[Symbol.iterator]();
    const text = () => texts.next().value as string;
    const numbers = this.#numbers;
    let place = 0;
    const next = () => numbers[place++] as number;
    for (let count = 1; place < numbers.length; count += 1) {
      switch (next()) {
        case POLICY: {
          const name = text();
          stage(name, text() as unknown as readonly Pair[]);
          native.policy(handle);
          break;
        }
        case ROUTE: {
          say(text());
          native.route(handle, next(), next());
          break;
        }
        case BEGIN:
          native.begin(handle, next(), next(), next(), next(), next(), next());
          break;
        case ON:
          native.on(handle, next(), next(), next());
          break;
        case WAKES:
          native.wakes(handle);
          break;
        case FELL_BACK:
          native.note_fallback(handle, next(), next(), next());
          break;
        case SUBSCRIBE:
          native.subscribe(handle, next());
          break;
        case LINK:
          native.set_link(handle, next(), next());
          break;
        default:
          native.measure(handle, next());
      }
      if (count % BATCH === 0 && engine.listening) engine.publish();
    }
    reportWall(engine);
    if (engine.listening) engine.publish();
  }
}

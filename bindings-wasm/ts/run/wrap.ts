/** Objects whose methods are under a policy. */

import { LACKING } from "../engine/declared.js";
import { atOnce } from "../errors/classify.js";
import { checkNames } from "../errors/errors.js";
import type { Policy } from "./policy.js";

/**
 * The names of an object's methods that return a promise. A wrapped method always returns one, so a method that returns a value at once,
 * or a stream, would no longer have its type.
 */
export type Methods<O> = { [K in keyof O]: IsAsync<O[K]> extends true ? K : never }[keyof O] & string;

type IsAsync<M> = M extends (...args: never[]) => PromiseLike<unknown>
  ? true
  : M extends (...args: never[]) => infer R // of several signatures the last
    ? [Extract<R, PromiseLike<unknown>>] extends [never]
      ? false
      : true
    : false;

/** Options of `wrap`. */
export interface WrapOptions<O> {
  /**
   * The methods to wrap; all by default, also those that return no promise: under the policy they return one. Other methods run on the
   * object itself: what they call there is not protected, so name the methods that send requests.
   */
  readonly methods?: readonly Methods<O>[] | undefined;
  /** The route of a call, from the method's name and its arguments; the name by default. */
  readonly route?: ((method: string, args: readonly unknown[]) => string) | undefined;
}

/** An object whose methods run under a policy. */
export function wrapped<O extends object>(policy: Policy<unknown>, target: O, options: WrapOptions<O>): O {
  checkNames("wrap", options, "methods route");
  const { methods, route } = options;
  const { core } = policy;
  const { engine } = core;
  const check = () => {
    if (methods !== undefined) return;
    if (core.number < 0) throw core.declared.mistake ?? LACKING;
    if (engine.native.may_do_twice(engine.handle, core.number) === 0) return;
    throw new TypeError(
      `policy ${JSON.stringify(policy.name)} repeats calls, and what a method writes may happen twice: name the methods that may be repeated, wrap(client, { methods: […] }), or let retryOn have only conflict, never_sent, throttled`,
    );
  };
  const checked = engine.declare(core.declared.full, check);
  const chosen = methods === undefined ? undefined : new Set<PropertyKey>(methods);
  for (const name of methods ?? []) {
    if (typeof target[name] !== "function")
      throw new TypeError(`${JSON.stringify(name)} is no method of what is wrapped`);
  }
  const callers = new Map<string, ReturnType<Policy<unknown>["at"]>>();
  const callerOf = (key: string) => {
    let caller = callers.get(key);
    if (caller === undefined) {
      if (callers.size >= 1000) callers.clear();
      caller = policy.at({ route: key });
      callers.set(key, caller);
    }
    return caller;
  };
  const made = new Map<PropertyKey, [original: unknown, under: unknown]>();
  // A proxy must return a fixed property of its target as it is, and a frozen object has only such properties.
  const shown = hasFixed(target) ? (Object.create(target) as O) : target;
  const proxy: O = new Proxy(shown, {
    set: (_, name, value) => Reflect.set(target, name, value, target),
    get(_, name) {
      const method: unknown = Reflect.get(target, name, target);
      if (typeof method !== "function" || name === "constructor") return method;
      const known = made.get(name);
      if (known?.[0] === method) return known[1];
      const isChosen =
        typeof name === "string" &&
        (chosen === undefined ? !name.startsWith("_") && !isStream(method) : chosen.has(name));
      if (!isChosen) {
        // Private fields are the target's, so a method that is not under the policy needs the target too.
        const apply = (of: (...args: unknown[]) => unknown, self: unknown, args: unknown[]): unknown =>
          Reflect.apply(of, self === proxy ? target : self, args);
        const plain = new Proxy(method as (...args: unknown[]) => unknown, { apply });
        made.set(name, [method, plain]);
        return plain;
      }
      const called = (args: unknown[]) =>
        callerOf(route === undefined ? name : atOnce(route(name, args), "route")).run(
          () => method.apply(target, args) as unknown,
        );
      const under = (...args: unknown[]) =>
        checked.settled && checked.mistake === undefined
          ? called(args)
          : checked.taken().then(() => called(args));
      made.set(name, [method, under]);
      return under;
    },
  });
  return proxy;
}

/** Whether the object has a method that can be neither changed nor removed. */
function hasFixed(target: object): boolean {
  return Object.values(Object.getOwnPropertyDescriptors(target)).some(
    ({ value, writable, configurable }) =>
      typeof value === "function" && writable === false && configurable === false,
  );
}

/** Generators are streams: a repeat would yield their items twice. */
function isStream(method: object): boolean {
  return /Generator/.test(Object.prototype.toString.call(method));
}

/**
 * State that all copies of this package in a process share: `import` and `require` load two, a bundle may have more. They share one default
 * engine, so they must use one module for its texts, and find the scopes, reports and switches of each other.
 */

const KEY = Symbol.for("tidegate/0.1/shared");

/** The object of this name, made by the first copy that asks for it. */
export function shared<T extends object>(name: string, make: () => T): T {
  const place = globalThis as { [KEY]?: Record<string, object> };
  place[KEY] ??= {};
  place[KEY][name] ??= make();
  return place[KEY][name] as T;
}

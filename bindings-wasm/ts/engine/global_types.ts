/**
 * Types of the platform's own objects: those of the program's library of types (`DOM`, `@types/node`, Deno's), and simple ones where it
 * has none, so that a program with `"lib": ["ES2022"]` alone can be checked against this package.
 */

/** The type of a class's instances, or another type if the platform's types have no such class. */
type Instance<Name extends string, Else> = typeof globalThis extends {
  [name in Name]: { prototype: infer Found };
}
  ? Found
  : Else;

/** The same for a class of `WebAssembly`. */
type OfWebAssembly<Name extends string, Else> = typeof globalThis extends {
  WebAssembly: { [name in Name]: { prototype: infer Found } };
}
  ? Found
  : Else;

/** `AbortSignal`. */
export type Signal = Instance<"AbortSignal", { readonly aborted: boolean; readonly reason: unknown }>;

/** `URL`. */
export type Address = Instance<"URL", { readonly href: string }>;

/** `Response`. */
export type Fetched = Instance<"Response", { readonly status: number; readonly ok: boolean }>;

/** `WebAssembly.Module`. */
export type CompiledModule = OfWebAssembly<"Module", object>;

/** `WebAssembly.Memory`. */
export type Memory = OfWebAssembly<"Memory", { readonly buffer: ArrayBuffer }>;

/** The global `fetch`. */
export type GlobalFetch = typeof globalThis extends { fetch: infer Found extends (...of: never) => unknown }
  ? Found
  : (input: string, init?: object) => Promise<Fetched>;

/** The options that the global `fetch` takes. */
export type Init = Exclude<Parameters<GlobalFetch>[1], undefined>;

/** What the global `fetch` takes as a body. */
export type SentBody = Init extends { body?: infer Found } ? Exclude<Found, null | undefined> : unknown;

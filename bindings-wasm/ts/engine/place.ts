/** Where a policy is defined: a definition that runs again, with other settings, is an edit of the one before. */

/** What only V8 has: the stack above a function, without its own frames. */
interface Stacks {
  captureStackTrace?(holder: object, above: unknown): void;
  stackTraceLimit?: number;
}

/** The file at the end of a frame, without what a development server puts behind its name (`?t=…`). */
const FILE = /((?:[a-z][a-z+.-]*:\/\/|\/|[A-Z]:\\)[^?#]*?)(?:[?#].*?)?:\d+:\d+\)?$/i;

/** The file that has called one of these functions; undefined where the platform does not say. */
export function definedIn(...above: readonly unknown[]): string | undefined {
  const errors = Error as Stacks;
  if (errors.captureStackTrace === undefined) return undefined;
  const limit = errors.stackTraceLimit;
  errors.stackTraceLimit = 1;
  try {
    for (const each of above) {
      const holder: { stack?: unknown } = {};
      errors.captureStackTrace(holder, each);
      const file = FILE.exec(String(holder.stack))?.[1];
      if (file !== undefined) return file;
    }
    return undefined;
  } catch {
    return undefined; // a hook of the program's own, in the making of stacks
  } finally {
    if (limit !== undefined) errors.stackTraceLimit = limit;
  }
}

/** Tells that a definition has run again with other settings. */
export function warnAgain(name: string, place: string): void {
  console.warn(
    `tidegate: policy "${name}" is defined again in ${place}, with other settings, which hold from here on. ` +
      "If these are two policies, give them two names",
  );
}

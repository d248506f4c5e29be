/** The file that defines a policy. A definition that runs again from the same file with other settings is an edit. */

/** V8's API for the stack above a function. */
interface Stacks {
  captureStackTrace?(holder: object, above: unknown): void;
  stackTraceLimit?: number;
}

/** The file in a stack frame, without the query that a development server appends (`?t=…`). */
const FILE = /((?:[a-z][a-z+.-]*:\/\/|\/|[A-Z]:\\)[^?#]*?)(?:[?#].*?)?:\d+:\d+\)?$/i;

/** The file that called one of these functions; undefined if the platform does not say. */
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
    return undefined; // the program's own hook for stack traces failed
  } finally {
    if (limit !== undefined) errors.stackTraceLimit = limit;
  }
}

/** Warns that a definition has run again with other settings. */
export function warnAgain(name: string, place: string): void {
  console.warn(
    `tidegate: policy "${name}" is defined again in ${place}, with other settings, which hold from here on. ` +
      "If these are two policies, give them two names",
  );
}

/** Copies of the package in one process. */

import { vi } from "vitest";

/** What is imported next is another copy of the package. */
export function copied(): void {
  vi.resetModules();
}

/** What is imported next is the only copy, as in a new process. */
export function alone(): void {
  vi.resetModules();
  delete (globalThis as { [key: symbol]: unknown })[Symbol.for("tidegate/0.1/shared")];
}

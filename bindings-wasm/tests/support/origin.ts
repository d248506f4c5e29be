/** The faulty server of `tests/origin`, started once for all tests; `TIDEGATE_ORIGIN` names its program. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import type { TestProject } from "vitest/node";

export default async function start(project: TestProject): Promise<() => Promise<void>> {
  const program = process.env["TIDEGATE_ORIGIN"];
  if (!program)
    throw new Error("TIDEGATE_ORIGIN names no program (cargo build --release -p tidegate-origin)");
  const origin = spawn(program, [], { stdio: ["pipe", "pipe", "inherit"] });
  const [line] = (await once(origin.stdout, "data")) as [Buffer];
  const { url, control } = JSON.parse(line.toString()) as { url: string; control: string };
  project.provide("url", url);
  project.provide("control", control);
  return async () => {
    if (origin.exitCode !== null || origin.signalCode !== null)
      throw new Error("the origin has ended before the tests");
    origin.stdin.end();
    await once(origin, "exit");
  };
}

declare module "vitest" {
  export interface ProvidedContext {
    url: string;
    control: string;
  }
}

// Files of journals, and of what an engine says to them.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";

/** Replays every trace of every file `<n>.journals`, and writes `<n>.answers`. `replay` takes a journal and gives an answer a line. */
export async function replayAll(folder, replay) {
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".journals"))) {
    const written = [];
    for (const trace of readFileSync(join(folder, file), "utf8").split("\n\n")) {
      if (trace === "") continue;
      const end = trace.indexOf("\n");
      written.push(trace.slice(0, end), ...replay(trace.slice(end + 1)));
      await setImmediate(); // engines that nobody holds are given back between two tasks only
    }
    writeFileSync(join(folder, file.replace(/journals$/, "answers")), `${written.join("\n")}\n`);
  }
}

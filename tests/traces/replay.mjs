// Replays journals by the public `Engine.replay`, and writes what the engine says to each line:
// node replay.mjs <entry of the package> <journals> <answers>. A trace is a name, a journal and an empty line (`core/examples/traces`).
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [entry, journals, answers] = process.argv.slice(2);
const { Engine } = await import(pathToFileURL(resolve(entry)));
const written = [];
for (const trace of readFileSync(journals, "utf8").split("\n\n")) {
  if (trace === "") continue;
  const end = trace.indexOf("\n");
  written.push(trace.slice(0, end), ...Engine.replay(trace.slice(end + 1)).answers);
}
writeFileSync(answers, `${written.join("\n")}\n`);

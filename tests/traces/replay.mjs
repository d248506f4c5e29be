// Replays journals by the public `Engine.replay`, and writes what the engine says to each line: node replay.mjs <entry of the
// package> <folder>. For each file `<n>.journals` in the folder it writes `<n>.answers`. A trace is a name, a journal and an
// empty line (`core/examples/traces`).
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { replayAll } from "./folder.mjs";

const [entry, folder] = process.argv.slice(2);
const { Engine } = await import(pathToFileURL(resolve(entry)));
await replayAll(folder, (journal) => Engine.replay(journal).answers);

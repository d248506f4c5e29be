/**
 * Two hundred chats over three failing providers of language models, in Node. ../README.md explains it.
 *
 *     node examples/llm/node/demo.mjs --origin target/release/tidegate-origin [--quick] [--seed 1] [--package bindings-wasm]
 *
 * `--package` is the folder of the built package; `openai` is found beside it.
 */

import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { NAMES, perform, table } from "./chats.mjs";
import { Provider, World } from "./providers.mjs";

const { values } = parseArgs({
  options: {
    origin: { type: "string", default: process.env.TIDEGATE_ORIGIN },
    package: { type: "string", default: "bindings-wasm" },
    quick: { type: "boolean", default: false },
    seed: { type: "string", default: "1" },
  },
});
if (!values.origin) {
  console.error("--origin: the program tidegate-origin (cargo build --release -p tidegate-origin)");
  process.exit(2);
}
const folder = resolve(values.package);
const tidegate = await import(pathToFileURL(`${folder}/dist/esm/node.js`).href);
const { OpenAI } = createRequire(`${folder}/package.json`)("openai");

const world = new World({ seed: Number(values.seed), ...(values.quick ? { chats: 40, span: 15, think: 4 } : {}) });
const providers = await Promise.all([0, 1, 2].map(() => Provider.start(values.origin)));
const runs = [];
try {
  for (const name of Object.keys(NAMES)) {
    console.log(`${world.chats} chats for ${world.span} s: ${NAMES[name]} …`);
    runs.push(await perform(name, { tidegate, OpenAI }, providers, world));
  }
} finally {
  await Promise.all(providers.map((provider) => provider.end()));
}
console.log(`\n${table(runs)}`);
if (Math.max(...runs.map(({ late }) => late)) > 250)
  console.log("\nWARNING  this machine was too busy to keep the users' times: do not trust the figures");

// Prints the public interface of the npm package, one line for each name: `node surface.mjs <folder of the package> <entry points>…`.
import { join, resolve } from "node:path";
import { Application, ReflectionKind } from "typedoc";

const [folder, ...entries] = process.argv.slice(2).map((path, at) => (at === 0 ? resolve(path) : path));
process.chdir(folder);
const app = await Application.bootstrap({
  tsconfig: join(folder, "tsconfig.json"),
  entryPoints: entries.map((entry) => join(folder, "ts", entry)),
  skipErrorChecking: true,
  excludeInternal: true,
  excludePrivate: true,
  disableSources: true,
  logLevel: "Error",
});
const project = await app.convert();
if (project === undefined) process.exit(1);

const lines = new Set();
const parameters = (signature) =>
  (signature.parameters ?? [])
    .map((it) => `${it.flags.isRest ? "..." : ""}${it.name}${it.flags.isOptional || it.defaultValue ? "?" : ""}: ${it.type}`)
    .join(", ");

function add(reflection, path) {
  const here = reflection.isProject() ? "" : path === "" ? reflection.name : `${path}.${reflection.name}`;
  const kind = ReflectionKind.singularString(reflection.kind).toLowerCase();
  const optional = reflection.flags?.isOptional ? "?" : "";
  const readonly = reflection.flags?.isReadonly ? "readonly " : "";
  for (const signature of reflection.signatures ?? []) lines.add(`${here}${optional}(${parameters(signature)}): ${signature.type}`);
  if (reflection.getSignature) lines.add(`${readonly}${here}: ${reflection.getSignature.type}`);
  if (!reflection.isProject() && !reflection.signatures && !reflection.getSignature) {
    const bases = (reflection.extendedTypes ?? []).join(", ");
    lines.add(`${kind} ${readonly}${here}${optional}${reflection.type ? `: ${reflection.type}` : ""}${bases ? ` extends ${bases}` : ""}`);
  }
  // An object type writes its members out.
  for (const child of reflection.children ?? reflection.type?.declaration?.children ?? []) add(child, here);
}

add(project, "");
process.stdout.write(`${[...lines].map((line) => line.replace(/\s+/g, " ")).sort().join("\n")}\n`);

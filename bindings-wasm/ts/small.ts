/**
 * The module that pages load, as it stands in the source: packed by a crate of ours (packer), a fifth smaller than with LZMA.
 * What unpacks it is a module too, because a page's JavaScript starts slowly.
 */

// biome-ignore assist/source/organizeImports: a bundle that begins with it takes 700 bytes less, compressed
import { PACKED, SIZES, UNPACKER } from "./small_gen.js";
import { compiled } from "./native.js";

/** What the module that unpacks exports (`packer/src/page.rs`). */
interface Unpacker {
  readonly memory: WebAssembly.Memory;
  packed(): number;
  unpack(size: number, start: number, end: number): number;
}

/** Its bytes. */
export function small(): Uint8Array {
  const code = Uint8Array.from(UNPACKER.match(/../g) as string[], (byte) => Number.parseInt(byte, 16));
  const it = new WebAssembly.Instance(compiled(code)).exports as unknown as Unpacker;
  const text = atob(PACKED);
  const memory = new Uint8Array(it.memory.buffer, it.packed());
  for (let n = 0; n < text.length; n += 1) memory[n] = text.charCodeAt(n); // a third of the time that from() takes
  return new Uint8Array(it.memory.buffer, it.unpack(...SIZES), SIZES[0]);
}

/**
 * The module that pages load, as it stands in the source: packed by a crate of ours (packer), a sixth smaller than with LZMA.
 * What unpacks it is a module too, because a page's JavaScript starts slowly.
 */

// biome-ignore assist/source/organizeImports: a bundle that begins with it takes 700 bytes less, compressed
import { PACKED, SIZES, UNPACKER } from "./small_gen.js";
import { bytesOf } from "./base64.js";
import { compiled } from "./native.js";

/** What the module that unpacks exports (`packer/src/page.rs`). */
interface Unpacker {
  readonly memory: WebAssembly.Memory;
  packed(): number;
  unpack(size: number, start: number, end: number): number;
}

/** Its bytes. */
export function small(): Uint8Array {
  const it = new WebAssembly.Instance(compiled(bytesOf(UNPACKER))).exports as unknown as Unpacker;
  const packed = bytesOf(PACKED);
  new Uint8Array(it.memory.buffer).set(packed, it.packed());
  return new Uint8Array(it.memory.buffer, it.unpack(...SIZES), SIZES[0]);
}

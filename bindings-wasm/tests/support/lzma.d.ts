declare module "lzma/src/lzma_worker.js" {
  const worker: { readonly LZMA: { compress(input: Uint8Array, level: number): number[] } };
  export default worker;
}

/**
 * The most bytes that a page loads at first: minified code of core and fetch, and the small module, each compressed with brotli.
 * The limit is a little more than today's size (docs/performance.md; docs/adr/0025-one-import.md says why it is not less).
 */
export const LARGEST = 72_200;

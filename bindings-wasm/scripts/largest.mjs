/**
 * The most bytes that a page loads at first: minified code of core and fetch, and the small module, each compressed with brotli.
 * The limit is today's size plus 2 % (docs/performance.md; docs/adr/0025-one-import.md says why it is not less).
 */
export const LARGEST = 67_500;

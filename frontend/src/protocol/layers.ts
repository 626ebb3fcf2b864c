/** The most numbers in one list, repetitions included: a longer list would block the page. */
const kMaxNamed = 1_000_000;

/**
 * Reads a list of ranges such as "1-4,8"; undefined if the text is not such a list. Layers count
 * from 1, micro-batches from 0.
 */
export function parseLayers(text: string, least: 0 | 1 = 1): readonly number[] | undefined {
  const layers = new Set<number>();
  let named = 0;
  for (const part of text.split(',')) {
    const match = /^\s*(\d{1,5})\s*(?:-\s*(\d{1,5})\s*)?$/.exec(part);
    if (match === null) return undefined;
    const first = Number(match[1]);
    const last = match[2] === undefined ? first : Number(match[2]);
    named += last - first + 1;
    if (first > last || first < least || named > kMaxNamed) return undefined;
    for (let layer = first; layer <= last; layer++) layers.add(layer);
  }
  return [...layers].sort((a, b) => a - b);
}

/** Writes layers as ranges: [1, 2, 3, 8] -> "1-3,8". */
export function formatLayers(layers: readonly number[]): string {
  const parts: string[] = [];
  for (let i = 0; i < layers.length; i++) {
    const first = layers[i];
    while (i + 1 < layers.length && layers[i + 1] === layers[i] + 1) i += 1;
    parts.push(first === layers[i] ? String(first) : `${first}-${layers[i]}`);
  }
  return parts.join(',');
}

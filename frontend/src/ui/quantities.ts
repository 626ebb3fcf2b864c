import { formatRange } from '../base/format';
import { compressorOfCode } from '../core/registry/registry';
import type { Recorded } from '../core/registry/feature';
import { type CompressorFacts, type Tokenizer } from '../protocol/messages';

// The quantities of the page's numbers, in the words of its legends, titles and files.

/** The quantity of a point's numbers in the model, before the compressor. */
export function numbersOf({ numbers, direction }: Recorded['query']): string {
  return direction === 1 ? 'gradient of the loss' : numbers;
}

/**
 * The quantity of a record's numbers: "activation, mean over tile". `of` is the entry's compressor;
 * undefined if its plan is not known.
 */
export function quantityOf(record: Recorded, of: CompressorFacts | undefined): string {
  const numbers = numbersOf(record.query);
  return compressorOfCode(record.compressor)?.quantityOf?.(numbers, record, of) ?? numbers;
}

/** The columns, of `width` columns, that the tiles from `first` to `last` represent: "12–15". */
export function tileColumns(width: number, tiles: number, first: number, last = first): string {
  const startOf = (tile: number): number => Math.floor((tile * width) / tiles);
  return formatRange(startOf(first), startOf(last + 1) - 1);
}

export function lossUnit(tokenizer: Tokenizer): string {
  return tokenizer === 'byte' ? 'nats/byte' : 'nats/token';
}

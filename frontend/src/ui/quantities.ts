import { formatRange } from '../base/format';
import { compressorOfCode } from '../core/registry/registry';
import type { Recorded } from '../core/registry/feature';
import { type CompressorFacts } from '../protocol/messages';

// What the page's numbers are, in the words of its legends, titles and files.

/** The numbers of a point, as the model has them. */
export function numbersOf({ numbers, direction }: Recorded['query']): string {
  return direction === 1 ? 'gradient of the loss' : numbers;
}

/**
 * The numbers of a record: "activation, mean over tile". `of`: the entry's compressor; undefined
 * where its plan is not known.
 */
export function quantityOf(record: Recorded, of: CompressorFacts | undefined): string {
  const numbers = numbersOf(record.query);
  return compressorOfCode(record.compressor)?.quantityOf?.(numbers, record, of) ?? numbers;
}

/** Which of `width` columns tiles stand for, from the first to the last of them: "12–15". */
export function tileColumns(width: number, tiles: number, first: number, last = first): string {
  const startOf = (tile: number): number => Math.floor((tile * width) / tiles);
  return formatRange(startOf(first), startOf(last + 1) - 1);
}

export function lossUnit(tokenizer: string): string {
  return tokenizer === 'byte' ? 'nats/byte' : 'nats/token';
}

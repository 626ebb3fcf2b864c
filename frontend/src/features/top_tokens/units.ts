import type { CompressorFacts } from '../../protocol/messages';

/** The name of an entry's unit: a column, or a direction with the name of its vector. */
export function unitName(of: CompressorFacts | undefined, unit: number): string {
  const vector = of?.vectors?.[unit];
  if (vector !== undefined) return `direction ${vector}`;
  const column = of?.columns?.[unit];
  return column === undefined ? `unit ${unit}` : `column ${column}`;
}

/** The columns of a text such as "3, 17"; undefined if the text is not a list of columns. */
export function columnsOf(text: string): readonly number[] | undefined {
  const parts = text.split(',').map((part) => part.trim());
  return parts.every((part) => /^\d{1,9}$/.test(part)) ? parts.map(Number) : undefined;
}

import type { CompressorFacts } from '../../protocol/messages';

/** What a unit of an entry is called: a column, or a direction by its vector. */
export function unitName(of: CompressorFacts | undefined, unit: number): string {
  const vector = of?.vectors?.[unit];
  if (vector !== undefined) return `direction ${vector}`;
  const column = of?.columns?.[unit];
  return column === undefined ? `unit ${unit}` : `column ${column}`;
}

/** "3, 17" as columns; undefined: it is something else. */
export function columnsOf(text: string): readonly number[] | undefined {
  const parts = text.split(',').map((part) => part.trim());
  return parts.every((part) => /^\d{1,9}$/.test(part)) ? parts.map(Number) : undefined;
}

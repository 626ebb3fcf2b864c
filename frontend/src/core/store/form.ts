/** Records that are shown alike: by tiles or columns, by their statistics, and so on. */
export type Form = 'values' | 'empty' | 'stats' | 'projection' | 'topk' | 'other';

const kForms: readonly Form[] = ['values', 'values', 'empty', 'stats', 'projection', 'topk'];

/** The form of a record's compressor, by its number on the wire. */
export function formOf(compressor: number): Form {
  return kForms[compressor] ?? 'other';
}

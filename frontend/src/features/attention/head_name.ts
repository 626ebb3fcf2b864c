import { kMeanHead } from './frame';

export function headName(head: number): string {
  return head === kMeanHead ? 'average of the heads' : `head ${head}`;
}

/** The text of a head in a row with the title "Head". */
export function headFact(head: number): string {
  return head === kMeanHead ? 'average' : String(head);
}

import { kMeanHead } from './frame';

export function headName(head: number): string {
  return head === kMeanHead ? 'average of the heads' : `head ${head}`;
}

/** Of a row that is named "Head" already. */
export function headFact(head: number): string {
  return head === kMeanHead ? 'average' : String(head);
}

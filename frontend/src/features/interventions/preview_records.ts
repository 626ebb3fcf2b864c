import { bytesOf } from '../../base/base64';
import { type Infer, object, parse, string } from '../../base/schema';
import type { TensorRecord } from '../../protocol/record';
import { decodeRecords } from '../../protocol/record_reader';

/** The records of a preview: without the program, and with it. */
export interface PreviewRecords {
  readonly off: readonly TensorRecord[];
  readonly on: readonly TensorRecord[];
}

export type PreviewRecordsRead = PreviewRecords | { readonly reason: string };

const recordsSchema = object({ off: string, on: string });

/** Reads the member `records` of a preview's answer; null if it is absent. It does not throw. */
export function readRecords(records: unknown): PreviewRecordsRead | null {
  if (records === undefined || records === null) return null;
  try {
    const { off, on }: Infer<typeof recordsSchema> = parse(recordsSchema, records);
    return { off: decodeRecords(bytesOf(off)), on: decodeRecords(bytesOf(on)) };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { reason: reason.replace(/^message: /, '') };
  }
}

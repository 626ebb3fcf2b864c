// What a preview takes of the evaluation batch, without and with the program: it scales or shifts
// the layers from the first written one on.

import { kRunId, type tileValue } from './fake_data.ts';
import { encodeRecord } from './fake_record.ts';
import { type Entry, recordsOf, type TileValue } from './fake_tensors.ts';

interface Source {
  readonly step: number;
  value(...place: Parameters<typeof tileValue>): number;
}

export interface FakeChange {
  readonly layer: number;
  readonly factor: number;
  readonly shift: number;
}

export function previewRecords(
  source: Source,
  plan: { readonly entries: readonly Entry[] },
  change: FakeChange,
): { readonly off: string; readonly on: string } {
  const off = source.value.bind(source);
  const on: TileValue = (...place) =>
    place[1] < change.layer ? off(...place) : off(...place) * change.factor + change.shift;
  return { off: encode(source.step, plan.entries, off), on: encode(source.step, plan.entries, on) };
}

function encode(step: number, entries: readonly Entry[], value: TileValue): string {
  const about = { run: BigInt(`0x${kRunId}`), sequence: 1, plan: 0, step };
  const parts = entries.flatMap((entry, index) =>
    recordsOf(entry, step, value).map(({ fields, payload }) =>
      encodeRecord({ ...about, ...fields, entry: index, phase: 1 }, payload),
    ),
  );
  return Buffer.concat(parts).toString('base64');
}

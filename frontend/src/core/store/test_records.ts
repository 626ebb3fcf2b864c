import type { RecordHeader, TensorRecord } from '../../protocol/record';

/** A record for tests of the store; `shape` must fit the payload. */
export function makeRecord(
  header: Partial<RecordHeader>,
  payload: Float32Array<ArrayBuffer> | Int32Array<ArrayBuffer> = new Float32Array(4),
): TensorRecord {
  return {
    header: {
      run: '01',
      sequence: 1,
      step: 1,
      plan: 1,
      entry: 0,
      microBatch: 0,
      promptSet: 0,
      firstRow: 0,
      point: 7,
      layer: 1,
      tensorRank: 0,
      pipelineRank: 0,
      dataRank: 0,
      phase: 0,
      direction: 0,
      dtype: payload instanceof Int32Array ? 5 : 2,
      compressor: 1,
      shape: [1, 2, 2],
      features: 8,
      time: 0,
      ...header,
    },
    payload: new Uint8Array(payload.buffer),
  };
}

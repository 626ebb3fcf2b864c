import {
  historyArrays,
  idsOf,
  layerAxis,
  mapArrays,
  positionAxis,
  threeMaps,
} from '../../core/registry/arrays';
import type { FrameFiles } from '../../core/registry/files';
import { compressorFor } from '../../core/session/plan_book.svelte';
import type { Session } from '../../core/session/session';
import type { ProjectionFrame } from './frame';
import { vectorName } from './vector_name';

export const kProjectionFiles: FrameFiles<ProjectionFrame> = {
  arraysOf: (frame) => [
    ...mapArrays(
      'projection',
      'as on the wire',
      frame.layerMap,
      layerAxis(frame),
      positionAxis(frame),
    ),
    ...idsOf(frame, positionAxis(frame)),
    ...historyArrays(frame.history, layerAxis(frame)),
  ],
  pairArraysOf: (pair) =>
    threeMaps('projection', pair.layerMaps, layerAxis(pair), positionAxis(pair.a)),
  factsOf: (session, frame) => ({
    vector: vectorOf(session, frame),
    steps: 'all steps that the page keeps',
  }),
  placeOf: (session, frame) => ` · on ${vectorOf(session, frame)}`,
};

function vectorOf(session: Session, frame: ProjectionFrame): string {
  return vectorName(frame, compressorFor(session, frame));
}

import type { PlainArray } from '../../base/npy';
import type { Session } from '../session/session';
import type { FramePair } from '../store/frame_pair';
import type { ViewFrame } from '../store/frames';

/** An axis of an exported array: its name, and a label for each index. */
export interface ExportAxis {
  readonly name: string;
  readonly labels: readonly (string | number)[];
}

/** An array of a view for export, with at most two axes. */
export interface ExportArray extends PlainArray {
  readonly name: string;
  readonly axes: readonly ExportAxis[];
  /** The description of the numbers. */
  readonly text: string;
}

export type Facts = Readonly<Record<string, string | number>>;

/** The exported data of a view. */
export interface Exported {
  /** The name of the file without its extension. */
  readonly name: string;
  readonly title: string;
  /** Run, step, point, layer, dtype and units, in the order of the file's header. */
  readonly facts: Facts;
  readonly arrays: readonly ExportArray[];
}

/** `one`: the large map on the screen; `all`: every head, layer and so on of the frame. */
export type Extent = 'one' | 'all';

/** The export of one kind of frame. Its code is loaded for the first export. */
export interface FrameFiles<F extends ViewFrame = ViewFrame> {
  /** All numbers of the frame, if it was built with the detail `whole`. */
  arraysOf(frame: F): readonly ExportArray[];
  /** The arrays of a comparison of two frames of this kind: A, B and A − B. */
  pairArraysOf?(pair: Extract<FramePair, { readonly a: F }>): readonly ExportArray[];
  /** Facts in addition to those of every frame. */
  factsOf?(session: Session, frame: F, extent: Extent): Facts;
  /** The part of the title after point, layer and step: " · head 2". */
  placeOf?(session: Session, frame: F, extent: Extent): string;
  /** The frame contains all layers. */
  readonly hasAllLayers?: boolean;
  /** The numbers are sums of the numbers on the wire. */
  readonly isSum?: boolean;
}

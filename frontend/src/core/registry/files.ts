import type { PlainArray } from '../../base/npy';
import type { Session } from '../session/session';
import type { FramePair } from '../store/frame_pair';
import type { ViewFrame } from '../store/frames';

/** An axis of an exported array: what it counts, and what stands at each place. */
export interface ExportAxis {
  readonly name: string;
  readonly labels: readonly (string | number)[];
}

/** Numbers of a view, for files; at most two axes. */
export interface ExportArray extends PlainArray {
  readonly name: string;
  readonly axes: readonly ExportAxis[];
  /** What the numbers are. */
  readonly text: string;
}

export type Facts = Readonly<Record<string, string | number>>;

/** What a view hands to a file. */
export interface Exported {
  /** Of the file, without its ending. */
  readonly name: string;
  readonly title: string;
  /** Run, step, point, layer, dtype, units: in the order of the header. */
  readonly facts: Facts;
  readonly arrays: readonly ExportArray[];
}

/** `one`: what is large on the screen; `all`: every head, layer and so on of the frame. */
export type Extent = 'one' | 'all';

/** What one kind of frame hands to files. Its code comes when a file is first made. */
export interface FrameFiles<F extends ViewFrame = ViewFrame> {
  /** Every number that the frame shows, where it was built whole. */
  arraysOf(frame: F): readonly ExportArray[];
  /** What a comparison of two such frames shows: A, B and A − B. */
  pairArraysOf?(pair: Extract<FramePair, { readonly a: F }>): readonly ExportArray[];
  /** Facts beyond those of every frame. */
  factsOf?(session: Session, frame: F, extent: Extent): Facts;
  /** What the title tells beyond point, layer and step: " · head 2". */
  placeOf?(session: Session, frame: F, extent: Extent): string;
  /** The frame is about all layers. */
  readonly hasAllLayers?: boolean;
  /** The numbers are sums of those on the wire. */
  readonly isSum?: boolean;
}

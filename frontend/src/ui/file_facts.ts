import { dtypeName, kPhases, kU8 } from '../protocol/record';
import type { Exported, Extent, Facts, FrameFiles } from '../core/registry/files';
import { viewOf } from '../core/registry/registry';
import { compressorFor } from '../core/session/plan_book.svelte';
import type { Session } from '../core/session/session';
import { compressorName } from '../core/store/compressors';
import type { ViewFrame } from '../core/store/frames';
import { quantityOf } from './quantities';

// The facts of the run and of a frame for exported files.

export function runFacts({ run }: Pick<Session, 'run'>): Facts {
  return { run: run?.name ?? '', run_id: run?.id ?? '' };
}

/** "tensor-tracer-demo-HiddenStates-layer3-step120". */
export function fileName({ run }: Pick<Session, 'run'>, of: string): string {
  return `tensor-tracer-${run?.name ?? 'run'}-${of}`.replace(/[^\w.-]+/g, '-');
}

/** A frame without its arrays: name, title and facts. */
export async function exportedFrame(
  session: Session,
  frame: ViewFrame,
  extent: Extent,
): Promise<Exported> {
  const point = session.pointNameOf(frame);
  const where = await placeOf(session, frame, extent);
  return {
    name: fileName(session, `${point}${where.file}-step${frame.step}`),
    title: `${point}${where.text} · step ${frame.step}`,
    facts: { ...runFacts(session), ...(await frameFacts(session, frame, extent)) },
    arrays: [],
  };
}

export async function frameFacts(
  session: Session,
  frame: ViewFrame,
  extent: Extent,
): Promise<Facts> {
  const files = await viewOf(frame).files?.();
  const { query } = frame;
  const row = frame.rowNames[Math.min(query.row, frame.rowNames.length - 1)];
  const data = query.promptSet > 0 ? `prompts ${query.promptSet}` : (kPhases[query.phase] ?? '');
  return {
    step: frame.step,
    plan: frame.plan,
    point: session.pointNameOf(frame),
    direction: query.direction === 1 ? 'gradient' : 'value',
    data,
    ...(hasOneLayer(frame, files) ? { layer: frame.layer } : {}),
    ...(row === undefined ? {} : { [frame.rowKind]: row }),
    ...files?.factsOf?.(session, frame, extent),
    compressor: compressorName(frame.compressor),
    features: frame.features,
    dtype: dtypeName(frame.dtype),
    units: quantityOf(frame, compressorFor(session, frame)),
    bound: boundOf(frame, files),
  };
}

/** The part of the title after the point: gradient, layer, and so on. `file`: the same for a file name. */
export async function placeOf(
  session: Session,
  frame: ViewFrame,
  extent: Extent,
): Promise<{ readonly text: string; readonly file: string }> {
  const files = await viewOf(frame).files?.();
  const gradient = frame.query.direction === 1 ? ' gradient' : '';
  const layer = hasOneLayer(frame, files) ? ` · layer ${frame.layer}` : '';
  const text = `${gradient}${layer}${files?.placeOf?.(session, frame, extent) ?? ''}`;
  return { text, file: text.replace(/ · (\w+) /g, '-$1').replace(/ /g, '-') };
}

/** False for a frame that contains all layers, or the steps of all layers. */
function hasOneLayer({ layer }: ViewFrame, files: FrameFiles | undefined): boolean {
  return layer > 0 && files?.hasAllLayers !== true;
}

function boundOf({ dtype }: ViewFrame, files: FrameFiles | undefined): string {
  const bound =
    dtype === kU8
      ? 'off by at most (largest - smallest) / 504 of the finite numbers of each line on the wire'
      : 'equal to the numbers on the wire';
  return files?.isSum === true ? `summed up in float64; the numbers are ${bound}` : bound;
}

/** The facts of a comparison of A and B. A fact that differs has both values. */
export function factsOfBoth(a: Facts, b: Facts): Facts {
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])];
  const both = (name: string): string | number =>
    a[name] === b[name] ? a[name] : `A: ${a[name] ?? 'none'}, B: ${b[name] ?? 'none'}`;
  return Object.fromEntries(names.map((name) => [name, both(name)]));
}

/** The steps in the file. A held view, or a page without the past steps, does not have all steps. */
export function stepsText(steps: readonly number[], stride: number): string {
  if (steps.length === 0) return 'none';
  const thin = stride === 1 ? '' : `, one of every ${stride}`;
  return `${steps[0]} to ${steps[steps.length - 1]}${thin}`;
}

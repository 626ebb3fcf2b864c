import { pictureOf } from './picture';
import { compressorName, dtypeName, kPhases, kU8 } from '../../protocol/record';
import { arraysOf, pairArrays, scalarArrays } from './export_arrays';
import type { AttentionFrame, ProjectionFrame, ViewFrame } from '../../core/store/frames';
import type { App } from '../../core/session/app.svelte';
import { type CurveName, kCurves, unitOf } from '../../ui/charts/curves';
import { csvOf, type Exported, type Facts, factsOfBoth, npzOf, stepsText } from './export_files';
import type { Format } from './export_formats';
import { compressorFor } from '../../core/session/plan_book.svelte';
import { headName, quantityOf, vectorName } from '../../ui/quantities';
import { kTabs } from '../../core/session/tabs';

/** What the current view hands to a file; without arrays it has no numbers. */
async function exportedOf(app: App, format: Format): Promise<Exported> {
  const { tab } = app.view;
  const { frame } = app;
  if (tab === 'compare') return ofComparison(app);
  if (tab === 'overview') return ofCurves(app);
  if (tab === 'plan' || tab === 'interventions' || frame === null) {
    const name = kTabs.find((each) => each.tab === tab)?.name ?? tab;
    return { name: fileName(app, tab), title: name, facts: runFacts(app), arrays: [] };
  }
  if (format === 'png') return ofFrame(app, frame, 'one');
  const shown = ofFrame(app, frame, 'all');
  const whole = await wholeOf(app, frame);
  if (whole === undefined) return shown;
  const exported = { ...shown, arrays: arraysOf(whole) };
  if (tab !== 'text' || frame.kind === 'topk') return exported;
  // Without predictions only the text is shown.
  return { ...exported, arrays: exported.arrays.filter((array) => array.name === 'tokens') };
}

/** The frame on the screen with every number of it; undefined: they are not kept any more. */
async function wholeOf(app: App, { query, step, kind }: ViewFrame): Promise<ViewFrame | undefined> {
  const view = await app.link.whole({ ...query, step });
  const whole = 'frame' in view ? view.frame : undefined;
  return whole?.step === step && whole.kind === kind ? whole : undefined;
}

/** Saves the current view to a file of the browser's downloads. */
export async function saveView(app: App, format: Format): Promise<void> {
  const exported = await exportedOf(app, format);
  const name = `${exported.name}.${format}`;
  const blob = await blobOf(exported, format);
  if (blob === null) {
    app.control.notice = `Not saved: the numbers of ${exported.title} are not kept any more`;
    return;
  }
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
  app.control.notice = `Saved ${name}`;
}

async function blobOf(exported: Exported, format: Format): Promise<Blob | null> {
  if (format === 'png') {
    const root = document.querySelector<HTMLElement>('main [data-export]');
    const whole = document.querySelector<HTMLElement>('main');
    const of = root ?? whole;
    return of === null ? null : pictureOf(of, [exported.title, subtitleOf(exported)]);
  }
  if (exported.arrays.length === 0) return null;
  if (format === 'npz') return new Blob([npzOf(exported)], { type: 'application/octet-stream' });
  return new Blob([...csvOf(exported)], { type: 'text/csv' });
}

function subtitleOf({ facts }: Exported): string {
  const { run, run_id, plan, compressor, dtype } = facts;
  const wire = dtype === undefined ? '' : ` · plan ${plan} · ${compressor}, ${dtype}`;
  return `${run} (${run_id})${wire}`;
}

/** `heads`: of attention, the one that is large or all. */
function ofFrame(app: App, frame: ViewFrame, heads: 'one' | 'all'): Exported {
  const point = app.pointNameOf(frame);
  const facts = { ...runFacts(app), ...frameFacts(app, frame, heads) };
  const where = placeOf(app, frame, heads);
  return {
    name: fileName(app, `${point}${where.file}-step${frame.step}`),
    title: `${point}${where.text} · step ${frame.step}`,
    facts,
    arrays: [],
  };
}

function ofComparison(app: App): Exported {
  const { compared, a, b } = app.comparison;
  const base = { name: fileName(app, 'compare'), title: 'Compare', facts: runFacts(app) };
  if (compared.pair === null) return { ...base, arrays: [] };
  const { pair } = compared;
  const nameOf = (side: typeof a): string => side.run?.name ?? app.run?.name ?? '';
  const idOf = (side: typeof a): string => side.run?.id ?? app.run?.id ?? '';
  const point = app.pointNameOf(pair.a);
  const where = placeOf(app, pair.a, 'one');
  return {
    name: fileName(app, `${point}${where.file}-step${pair.a.step}-minus-step${pair.b.step}`),
    title: `${point}${where.text} · A: ${nameOf(a)}, step ${pair.a.step} · B: ${nameOf(b)}, step ${pair.b.step}`,
    facts: {
      ...runFacts(app),
      ...factsOfBoth(frameFacts(app, pair.a, 'one'), frameFacts(app, pair.b, 'one')),
      a: `run ${nameOf(a)} (${idOf(a)}), ${a.phase}, step ${pair.a.step}`,
      b: `run ${nameOf(b)} (${idOf(b)}), ${b.phase}, step ${pair.b.step}`,
      difference: 'A − B',
    },
    arrays: pairArrays(pair),
  };
}

function ofCurves(app: App): Exported {
  const scalars = app.scalars();
  const steps = scalars.map(({ step }) => step);
  const unit = (curve: CurveName): string => unitOf(kCurves[curve], app.tokenizer);
  const units = {
    ...{ loss: unit('loss'), valid_loss: unit('loss'), grad_norm: unit('grad') },
    ...{ lr: unit('rate'), tokens_per_second: unit('speed') },
  };
  return {
    name: fileName(app, 'curves'),
    title: `Curves to step ${steps.at(-1) ?? 0}`,
    facts: { ...runFacts(app), steps: stepsText(steps, app.series.stride) },
    arrays: scalarArrays(scalars, units),
  };
}

function runFacts({ run }: App): Facts {
  return { run: run?.name ?? '', run_id: run?.id ?? '' };
}

function frameFacts(app: App, frame: ViewFrame, heads: 'one' | 'all'): Facts {
  const { query } = frame;
  const row = frame.rowNames[Math.min(query.row, frame.rowNames.length - 1)];
  const data = query.promptSet > 0 ? `prompts ${query.promptSet}` : (kPhases[query.phase] ?? '');
  return {
    step: frame.step,
    plan: frame.plan,
    point: app.pointNameOf(frame),
    direction: query.direction === 1 ? 'gradient' : 'value',
    data,
    ...(hasOneLayer(frame) ? { layer: frame.layer } : {}),
    ...(row === undefined ? {} : { [frame.rowKind]: row }),
    ...(frame.kind === 'attention' ? headFacts(frame, heads) : {}),
    ...(frame.kind === 'projection' ? { vector: vectorOf(app, frame) } : {}),
    ...(kOverSteps.has(frame.kind) ? { steps: 'those that the page keeps' } : {}),
    compressor: compressorName(frame.compressor),
    features: frame.features,
    dtype: dtypeName(frame.dtype),
    units: quantityOf(frame, compressorFor(app, frame)),
    bound: boundOf(frame),
  };
}

function headFacts(
  { head, heads: count }: AttentionFrame,
  heads: 'one' | 'all',
): Record<string, number> {
  return heads === 'one' ? { head } : { heads: count };
}

const kOverSteps: ReadonlySet<ViewFrame['kind']> = new Set(['over', 'stats', 'projection']);

function vectorOf(app: App, frame: ProjectionFrame): string {
  return vectorName(frame, compressorFor(app, frame));
}

function boundOf({ kind, dtype }: ViewFrame): string {
  const bound =
    dtype === kU8
      ? 'off by at most (largest - least) / 504 of the finite numbers of each line on the wire'
      : 'equal to the numbers on the wire';
  return kind === 'over' ? `summed up in float64, of numbers ${bound}` : bound;
}

/** All layers, or the steps of all, are not about one of them. */
function hasOneLayer({ kind, layer }: ViewFrame): boolean {
  return layer > 0 && kind !== 'layers' && kind !== 'over';
}

function placeOf(
  app: App,
  frame: ViewFrame,
  heads: 'one' | 'all',
): { readonly text: string; readonly file: string } {
  const gradient = frame.query.direction === 1 ? ' gradient' : '';
  const layer = hasOneLayer(frame) ? ` · layer ${frame.layer}` : '';
  const head = frame.kind === 'attention' && heads === 'one' ? ` · ${headName(frame.head)}` : '';
  const vector = frame.kind === 'projection' ? ` · on ${vectorOf(app, frame)}` : '';
  const text = `${gradient}${layer}${head}${vector}`;
  return { text, file: text.replace(/ · (\w+) /g, '-$1').replace(/ /g, '-') };
}

/** "tensor-tracer-demo-HiddenStates-layer3-step120". */
function fileName({ run }: App, of: string): string {
  return `tensor-tracer-${run?.name ?? 'run'}-${of}`.replace(/[^\w.-]+/g, '-');
}

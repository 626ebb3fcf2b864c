import { pictureOf } from '../draw/picture';
import { compressorName, dtypeName, kAttentionFlag, kLogitsFlag, kU8 } from '../protocol/record';
import { arraysOf, columnArrays, pairArrays } from '../store/export_arrays';
import type { ViewFrame } from '../store/frames';
import { toColumns } from '../store/series_store';
import type { App } from './app.svelte';
import { csvOf, type Exported, npzOf } from './export_files';
import type { Format } from './export_formats';
import { kTabs } from './tabs';

/** What the current view hands to a file; without arrays it has no numbers. */
function exportedOf(app: App): Exported {
  const { tab } = app.view;
  if (tab === 'compare') return ofComparison(app);
  if (tab === 'overview') return ofCurves(app);
  if (tab === 'text' && app.frame !== null && app.frame.kind !== 'topk') {
    // Without predictions only the text is shown.
    const exported = ofFrame(app, app.frame);
    return { ...exported, arrays: exported.arrays.filter((array) => array.name === 'tokens') };
  }
  if (tab !== 'plan' && tab !== 'interventions' && app.frame !== null)
    return ofFrame(app, app.frame);
  const name = kTabs.find((each) => each.tab === tab)?.name ?? tab;
  return { name: fileName(app, tab), title: name, facts: runFacts(app), arrays: [] };
}

/** Saves the current view to a file of the browser's downloads. */
export async function saveView(app: App, format: Format): Promise<void> {
  const exported = exportedOf(app);
  const name = `${exported.name}.${format}`;
  const blob = await blobOf(exported, format);
  if (blob === null) return;
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
  return new Blob([csvOf(exported)], { type: 'text/csv' });
}

function subtitleOf({ facts }: Exported): string {
  const { run, run_id, plan, compressor, dtype } = facts;
  const wire = dtype === undefined ? '' : ` · plan ${plan} · ${compressor}, ${dtype}`;
  return `${run} (${run_id})${wire}`;
}

function ofFrame(app: App, frame: ViewFrame): Exported {
  const point = app.pointNameOf(frame);
  const facts = { ...runFacts(app), ...frameFacts(app, frame) };
  const where = placeOf(app, frame);
  return {
    name: fileName(app, `${point}${where.file}-step${frame.step}`),
    title: `${point}${where.text} · step ${frame.step}`,
    facts,
    arrays: arraysOf(frame),
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
  const where = placeOf(app, pair.a);
  return {
    name: fileName(app, `${point}${where.file}-step${pair.a.step}-minus-step${pair.b.step}`),
    title: `${point}${where.text} · A: ${nameOf(a)}, step ${pair.a.step} · B: ${nameOf(b)}, step ${pair.b.step}`,
    facts: {
      ...runFacts(app),
      ...frameFacts(app, pair.a),
      a: `run ${nameOf(a)} (${idOf(a)}), ${a.phase}, step ${pair.a.step}`,
      b: `run ${nameOf(b)} (${idOf(b)}), ${b.phase}, step ${pair.b.step}`,
      difference: 'A − B',
    },
    arrays: pairArrays(pair),
  };
}

function ofCurves(app: App): Exported {
  const { steps, loss, validLoss, gradNorm, rate, speed } = toColumns(
    app.scalars(),
    app.series.stride,
  );
  const rows = { name: 'step', labels: steps };
  const columns = {
    loss,
    valid_loss: validLoss,
    grad_norm: gradNorm,
    lr: rate,
    tokens_per_second: speed,
  };
  return {
    name: fileName(app, 'curves'),
    title: `Curves to step ${steps.at(-1) ?? 0}`,
    facts: { ...runFacts(app), units: 'losses in nats a token' },
    arrays: steps.length === 0 ? [] : columnArrays(rows, columns),
  };
}

function runFacts({ run }: App): Record<string, string | number> {
  return { run: run?.name ?? '', run_id: run?.id ?? '' };
}

function frameFacts(app: App, frame: ViewFrame): Record<string, string | number> {
  const { query } = frame;
  const row = frame.rowNames[Math.min(query.row, frame.rowNames.length - 1)];
  const data = query.promptSet > 0 ? `prompts ${query.promptSet}` : (kPhases[query.phase] ?? '');
  return {
    step: frame.step,
    plan: frame.plan,
    point: app.pointNameOf(frame),
    direction: query.direction === 1 ? 'gradient' : 'value',
    data,
    layer: frame.layer,
    ...(row === undefined ? {} : { [frame.rowKind]: row }),
    ...(frame.kind === 'attention' ? { head: frame.head } : {}),
    ...(frame.kind === 'projection' ? { vector: vectorOf(app, frame.vector) } : {}),
    compressor: compressorName(frame.compressor),
    features: frame.features,
    dtype: dtypeName(frame.dtype),
    units: unitsOf(frame),
    bound: boundOf(frame.dtype),
  };
}

const kPhases = ['train', 'eval'] as const;

function vectorOf(app: App, vector: number): string {
  return app.point?.compressor.vectors?.[vector] ?? String(vector);
}

function unitsOf(frame: ViewFrame): string {
  if (frame.query.point === kAttentionFlag) return 'probability';
  if (frame.query.point === kLogitsFlag) return 'logit';
  return frame.kind === 'projection' ? 'dot product with the vector' : "the tensor's own";
}

function boundOf(dtype: number): string {
  return dtype === kU8
    ? 'off by at most (largest - least) / 504 of the finite numbers of each line on the wire'
    : 'equal to the numbers on the wire';
}

function placeOf(app: App, frame: ViewFrame): { readonly text: string; readonly file: string } {
  const gradient = frame.query.direction === 1 ? ' gradient' : '';
  const layer = frame.layer === 0 ? '' : ` · layer ${frame.layer}`;
  const head = frame.kind === 'attention' ? ` · head ${frame.head}` : '';
  const vector = frame.kind === 'projection' ? ` · on ${vectorOf(app, frame.vector)}` : '';
  const text = `${gradient}${layer}${head}${vector}`;
  return { text, file: text.replace(/ · (\w+) /g, '-$1').replace(/ /g, '-') };
}

/** "tensor-tracer-demo-HiddenStates-layer3-step120". */
function fileName({ run }: App, of: string): string {
  return `tensor-tracer-${run?.name ?? 'run'}-${of}`.replace(/[^\w.-]+/g, '-');
}

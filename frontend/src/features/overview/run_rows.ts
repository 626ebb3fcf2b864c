import {
  formatBytes,
  formatCount,
  formatDuration,
  formatInteger,
  formatPlural,
  formatTick,
} from '../../base/format';
import { meshText, rankCount } from '../../protocol/mesh';
import type { Part, RunFacts, StepFacts } from '../../protocol/messages';
import type { StepRange } from '../../core/worker/history_client';
import type { LeaderFacts } from '../../core/worker/leaders';
import type { Traffic } from '../../core/worker/link_messages';
import { kLagSteps } from '../../core/session/connection_chip';
import { type Drops, dropPlaces } from '../../core/session/drops';

/** A fact on the page: its name, its value, and a tip with details. */
export interface Row {
  readonly name: string;
  readonly value: string;
  readonly tip?: string;
  readonly tone?: 'warn' | 'bad';
}

/** The facts of a run that do not change while it runs. */
export function runRows(run: RunFacts): readonly Row[] {
  const { mesh, model } = run;
  const rows: Row[] = [
    { name: 'Run', value: `${run.name} · ${run.id}` },
    { name: 'Started', value: [timeText(run.start_time), run.host].filter(Boolean).join(' · ') },
    {
      name: 'Ranks',
      value: `${rankCount(mesh)} · ${meshText(mesh)}`,
      tip: `Tensor${mesh.context === undefined ? '' : ', context'}, pipeline and data parallel`,
    },
    {
      name: 'Model',
      value: `${model.num_layers} layers · hidden size ${model.hidden_size} · ${model.num_attention_heads} heads`,
    },
  ];
  const { parameters } = model;
  const size = parameters === undefined ? '' : `${formatCount(parameters)} · `;
  const texts = `vocabulary ${formatInteger(model.vocab_size)} · length ${model.seq_length}`;
  const tip = 'Parameters, vocabulary size, sequence length';
  rows.push({ name: 'Size', value: `${size}${texts}`, tip });
  if (run.global_batch_size !== undefined) {
    const micro =
      run.micro_batch_size === undefined ? '' : `, micro-batches of ${run.micro_batch_size}`;
    rows.push({ name: 'Batch', value: `${run.global_batch_size} sequences${micro}` });
  }
  if (run.gradients !== undefined) rows.push(gradientRow(run.gradients));
  return rows.filter(({ value }) => value !== '');
}

function gradientRow(of: NonNullable<RunFacts['gradients']>): Row {
  const {
    gradient_accumulation_steps: steps,
    data_parallel_size: replicas,
    loss_scale: scale,
  } = of;
  const factor = scale === undefined ? 'unknown' : formatTick(scale);
  return {
    name: 'Gradients',
    value: `loss scale ${factor} · ${formatPlural(steps, 'accumulation step')} · DP ${replicas}`,
    tip: 'Of the loss of one micro-batch of one data-parallel replica, times the loss scale of the first step',
  };
}

/** The progress and the pace of a run. */
export function progressRows(
  phase: string,
  step: number,
  total: number | undefined,
  left: number | null,
  latest: StepFacts | null,
): readonly Row[] {
  const part =
    total === undefined || total === 0 ? '' : ` · ${Math.floor((100 * step) / total)}\u00a0%`;
  const of = total === undefined ? '' : ` of ${formatInteger(total)}`;
  const rows: Row[] = [
    { name: 'Phase', value: phase },
    { name: 'Step', value: `${formatInteger(step)}${of}${part}` },
  ];
  if (left !== null) rows.push({ name: 'Left', value: `about ${formatDuration(left)}` });
  const { consumed_tokens: tokens, step_ms: pace, tracer_ms: traced } = latest ?? {};
  if (typeof tokens === 'number') {
    rows.push({ name: 'Trained on', value: `${formatCount(tokens)} tokens` });
  }
  if (typeof pace === 'number') {
    const cost =
      typeof traced === 'number' ? `, including ${traced.toFixed(1)}\u00a0ms tracer` : '';
    rows.push({ name: 'Step time', value: `${pace.toFixed(0)}\u00a0ms${cost}` });
  }
  return rows;
}

/** The lag, the drops, the traffic and the kept data of hub and page. */
export function hubRows(
  lag: number,
  drops: Drops,
  dropTip: string,
  traffic: Traffic | null,
  history: StepRange | null,
): readonly Row[] {
  const dropped = dropPlaces(drops);
  const rows: Row[] = [
    {
      name: 'View',
      value: lag === 0 ? 'up to date' : `${lag} steps behind`,
      ...warnIf(lag > kLagSteps),
    },
    {
      name: 'Drops',
      value: dropped || 'none',
      tip: dropTip,
      ...warnIf(dropped !== ''),
    },
  ];
  if (traffic !== null) {
    const { bytesPerSecond, recordsPerSecond, storedBytes, capacity } = traffic;
    const rate = `${formatBytes(bytesPerSecond)}/s · ${formatInteger(recordsPerSecond)} records/s`;
    const kept = `${formatBytes(storedBytes)} of ${formatBytes(capacity)}`;
    rows.push({ name: 'Traffic', value: rate });
    rows.push({
      name: 'Page keeps',
      value: kept,
      tip: 'The newest records. The page drops the oldest records first.',
    });
  }
  const steps =
    history && `steps ${formatInteger(history.first)} to ${formatInteger(history.last)}`;
  rows.push({ name: 'Hub keeps', value: steps ?? 'no history', tip: "The hub's history on disk" });
  return rows;
}

/** The pipeline stages without a connected leader. */
export function missingRows(parts: readonly Part[], phase: string): readonly Row[] {
  if (phase === 'finished' || phase === 'stopped') return [];
  return parts
    .filter(({ connected }) => !connected)
    .map(({ stage, rank }) => ({
      name: `PP ${stage}`,
      value: rank === undefined ? 'missing' : `missing · rank ${rank}`,
      tip: 'The leader of this pipeline stage is not connected: no new records of its layers',
      ...warnIf(true),
    }));
}

/** The lag and the missed records of the ranks that send records. */
export function leaderRows(leaders: readonly LeaderFacts[], newestStep: number): readonly Row[] {
  return leaders.map(({ pipeline, data, tensor, step, spacing, delayMs, missed }) => {
    const behind = spacing === null ? null : Math.max(0, Math.floor((newestStep - step) / spacing));
    const facts = [
      `step ${formatInteger(step)}`,
      ...(behind === null ? [] : [behind === 0 ? 'up to date' : `${formatInteger(behind)} behind`]),
      ...(delayMs === null ? [] : [`${Math.max(0, delayMs).toFixed(0)}\u00a0ms`]),
      ...(missed === 0 ? [] : [`${formatInteger(missed)} lost`]),
    ];
    return {
      name: `PP ${pipeline} DP ${data}`,
      value: facts.join(' · '),
      tip:
        `Pipeline stage ${pipeline}, data replica ${data}, tensor rank ${tensor}: its newest step, ` +
        'the captured steps since then, the delay of its newest record, ' +
        'and the records that were lost on the way since the page connected',
      ...warnIf((behind ?? 0) > kLagSteps || missed > 0),
    };
  });
}

/** The options that were given to the run, as they were written. */
export function configurationRows(run: RunFacts): readonly Row[] {
  return Object.entries(run.configuration ?? {}).map(([name, value]) => ({
    name,
    value: textOf(value),
  }));
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  return Array.isArray(value) ? value.map(textOf).join(' ') : JSON.stringify(value);
}

function timeText(start: string | undefined): string {
  const time = new Date(start ?? Number.NaN);
  if (Number.isNaN(time.getTime())) return '';
  return time.toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short' });
}

function warnIf(condition: boolean): Pick<Row, 'tone'> {
  return condition ? { tone: 'warn' } : {};
}

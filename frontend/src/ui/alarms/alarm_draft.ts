import { compressorNamed, contributions } from '../../core/registry/registry';
import type { WatchedEntry } from '../../core/session/watched';
import type { FrameBase } from '../../core/store/frames';
import type { AlarmRule } from '../../protocol/alarms';
import type { PlanEntry, RunFacts } from '../../protocol/messages';

/** The curve of an alarm: the members of `alarms.set` that select it. */
export type AlarmCurve = Pick<
  AlarmRule,
  | 'scalar'
  | 'point'
  | 'statistic'
  | 'vector'
  | 'over'
  | 'column'
  | 'parameter'
  | 'layers'
  | 'direction'
  | 'phase'
  | 'prompts'
  | 'mean_over'
>;

/** A scalar of the steps, or a number of records, without the selection of these records. */
export type AlarmNumber = Pick<
  AlarmCurve,
  'scalar' | 'statistic' | 'vector' | 'over' | 'column' | 'parameter'
>;

export const kScalars = [
  'loss',
  'valid_loss',
  'grad_norm',
  'lr',
  'tokens_per_second',
  'step_ms',
  'tracer_ms',
] as const;

/** This statistic and the other statistics of the same records. */
export function statisticsBeside(statistic: string): readonly string[] {
  const lists = contributions('compressors').map(({ statistics = [] }) => statistics);
  return lists.find((names) => names.includes(statistic)) ?? [statistic];
}

/** The tests, with the number fields that each one has. */
export const kTests = [
  { test: 'above', name: 'value above', fields: ['value'] },
  { test: 'below', name: 'value below', fields: ['value'] },
  { test: 'sigma', name: 'k standard deviations away', fields: ['k', 'window'] },
  { test: 'range', name: 'value outside of a range', fields: ['low', 'high'] },
  { test: 'rising', name: 'slope above', fields: ['value', 'window'] },
  { test: 'falling', name: 'slope below', fields: ['value', 'window'] },
  { test: 'nonfinite', name: 'NaN or infinite', fields: [] },
] as const;
export type TestName = (typeof kTests)[number]['test'];
export type NumberField = 'value' | 'low' | 'high' | 'k' | 'window';

/** An alarm that the user edits. Numbers are texts, as typed. */
export interface AlarmDraft {
  readonly name: string;
  readonly curve: AlarmCurve;
  readonly test: TestName;
  readonly numbers: Readonly<Record<NumberField, string>>;
  readonly side: 'both' | 'above' | 'below';
  /** Only for `sigma`: the baseline is that of the first values. */
  readonly first: boolean;
  /** Only for `mean_over`: compares with the start of the run. */
  readonly baseline: boolean;
  readonly consecutive: string;
  readonly pause: boolean;
}

/** The `k` of a new alarm, as docs/alarms.md advises. */
function firstK(baseline: boolean): string {
  return baseline ? '2' : '6';
}

export function draftOf(curve: AlarmCurve): AlarmDraft {
  return {
    name: '',
    curve,
    test: 'sigma',
    numbers: { value: '', low: '', high: '', k: firstK(false), window: '100' },
    side: 'both',
    first: false,
    baseline: false,
    consecutive: '1',
    pause: false,
  };
}

/** The draft that compares with the start of the run, or not. A `k` that the user typed stays. */
export function withBaseline(draft: AlarmDraft, baseline: boolean): AlarmDraft {
  const { numbers } = draft;
  const k = numbers.k === firstK(draft.baseline) ? firstK(baseline) : numbers.k;
  return { ...draft, baseline, numbers: { ...numbers, k } };
}

/** The draft for another curve. Only a curve with `mean_over` has a start to compare with. */
export function withCurve(draft: AlarmDraft, curve: AlarmCurve): AlarmDraft {
  const baseline = draft.baseline && curve.mean_over !== undefined;
  return withBaseline({ ...draft, curve }, baseline);
}

/** The draft of an existing alarm, to change it. */
export function draftFrom(rule: AlarmRule): AlarmDraft {
  const { scalar, point, statistic, vector, over, column, parameter } = rule;
  const { layers, direction, phase, prompts, mean_over } = rule;
  const text = (value: number | undefined): string => (value === undefined ? '' : String(value));
  const { value, low, high, k, side } = rule;
  const window = rule.window ?? rule.first;
  return {
    name: rule.name,
    curve: {
      ...{ scalar, point, statistic, vector, over, column, parameter },
      ...{ layers, direction, phase, prompts, mean_over },
    },
    test: kTests.find(({ test }) => test === rule.test)?.test ?? 'nonfinite',
    numbers: {
      value: text(value),
      low: text(low),
      high: text(high),
      k: k === undefined ? firstK(rule.baseline ?? false) : text(k),
      window: text(window ?? 100),
    },
    side: side === 'above' || side === 'below' ? side : 'both',
    first: rule.first !== undefined,
    baseline: rule.baseline ?? false,
    consecutive: text(rule.consecutive ?? 1),
    pause: rule.pause ?? false,
  };
}

/** The params of `alarms.set`. An empty number is left out; the hub's error then names it. */
export function paramsOf(draft: AlarmDraft): Record<string, unknown> {
  const params: Record<string, unknown> = { name: nameOf(draft) };
  for (const [member, value] of Object.entries(draft.curve)) {
    if (value !== undefined && value !== '') params[member] = value;
  }
  params.test = draft.test;
  const baseline = draft.baseline && draft.curve.mean_over !== undefined;
  if (baseline) params.baseline = true;
  for (const field of fieldsOf(draft.test)) {
    if (baseline && draft.test === 'sigma' && field === 'window') continue;
    const text = draft.numbers[field].trim();
    const member = field === 'window' && draft.test === 'sigma' && draft.first ? 'first' : field;
    if (text !== '') params[member] = Number(text);
  }
  if (draft.test === 'sigma' && draft.side !== 'both') params.side = draft.side;
  if (draft.consecutive.trim() !== '1') params.consecutive = Number(draft.consecutive);
  if (draft.pause) params.pause = true;
  return params;
}

export function fieldsOf(test: TestName): readonly NumberField[] {
  return kTests.find((each) => each.test === test)?.fields ?? [];
}

/** The typed name, or a name made from the curve and the test. */
export function nameOf({ name, curve, test }: AlarmDraft): string {
  if (name.trim() !== '') return name.trim();
  const { column, parameter, mean_over } = curve;
  const value = column === undefined ? '' : `column ${column}`;
  const number = curve.statistic === 'value' ? value : curve.statistic;
  const layers = curve.layers === undefined ? '' : `L${curve.layers}`;
  const what = curve.scalar ?? number ?? curve.vector ?? '';
  return [what, curve.point ?? '', mean_over ?? '', parameter ?? '', layers, test]
    .filter((part) => part !== '')
    .join(' ')
    .slice(0, 60);
}

/** The members of a curve that select records. `sets` are all prompt sets of the run, the removed sets too. */
function selection(
  point: string,
  direction: number,
  isEval: boolean,
  promptSet: number,
  sets: RunFacts['prompt_sets'],
): AlarmCurve {
  return {
    point,
    direction: direction === 1 ? 'gradient' : undefined,
    phase: promptSet === 0 && isEval ? 'eval' : undefined,
    prompts: promptSet === 0 ? undefined : sets[promptSet - 1].name,
  };
}

/**
 * The curve of a frame's layer. Undefined if there is no alarm on it: a typed prompt has one step. `entry` is
 * the plan's entry; undefined if the plan is not known.
 */
export function curveOfRecords(
  number: AlarmNumber,
  { query, layer }: Pick<FrameBase, 'query' | 'layer'>,
  sets: RunFacts['prompt_sets'],
  entry: Pick<PlanEntry, 'mean_over' | 'responses'> | undefined,
): AlarmCurve | undefined {
  const { pointName, direction, phase, promptSet } = query;
  const { mean_over = '', responses = false } = entry ?? {};
  const hasAlarms = mean_over === '' ? !responses : number.vector !== undefined;
  if (promptSet > sets.length || !hasAlarms) return undefined;
  return {
    ...(mean_over === '' ? number : { vector: number.vector, mean_over }),
    ...selection(pointName, direction, phase === 1, promptSet, sets),
    layers: layer > 0 ? String(layer) : undefined,
  };
}

/** The curves of the plan's entries. */
export function curvesOf(
  watched: readonly WatchedEntry[],
  sets: RunFacts['prompt_sets'],
): readonly AlarmCurve[] {
  return watched.flatMap((entry): readonly AlarmCurve[] => {
    if (!entry.enabled) return [];
    const isEval = !entry.phases.includes('train');
    const { direction, promptSet } = entry;
    const common = selection(entry.facts.name, direction, isEval, promptSet, sets);
    const { kind, vectors } = entry.compressor;
    if (entry.hasResponses && entry.meanOver === '') return [];
    if (entry.meanOver !== '' && kind !== 'projection') return [];
    const mean = entry.meanOver === '' ? {} : { mean_over: entry.meanOver };
    if (vectors !== undefined) return vectors.map((vector) => ({ ...common, vector, ...mean }));
    const { statistics = [], hasStatistics } = compressorNamed(kind) ?? {};
    if (statistics.length === 0 || hasStatistics?.(entry.facts) === false) return [];
    return [{ ...common, statistic: statistics[0] }];
  });
}

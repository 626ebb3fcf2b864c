import { lossesAt, type StepLoss } from '../../core/store/losses';
import type { LineStyle } from './line_style';
import { type Columns, debiasedEma } from '../../core/store/series_store';
import type { StepFacts, Tokenizer } from '../../protocol/messages';
import { lossUnit } from '../quantities';

/** A chart of the run's scalars. */
export interface Curve {
  readonly title: string;
  readonly label: string;
  readonly column: 'loss' | 'gradNorm' | 'rate' | 'speed';
  /** The name of the same number in the hub's messages. */
  readonly member: 'loss' | 'grad_norm' | 'lr' | 'tokens_per_second';
  readonly color: string;
  /** The member of the view that makes its axis logarithmic. */
  readonly log: 'logLoss' | 'logGrad' | 'logRate' | 'logSpeed';
  /** The curve is noisy, so it also has a smoothed line. */
  readonly isNoisy: boolean;
}

export type CurveName = 'loss' | 'grad' | 'rate' | 'speed';

export const kCurves: Readonly<Record<CurveName, Curve>> = {
  loss: {
    title: 'Loss',
    label: 'Training and validation loss by step',
    ...{ column: 'loss', member: 'loss', color: '--train', log: 'logLoss', isNoisy: true },
  },
  grad: {
    title: 'Grad norm',
    label: 'Gradient norm by step',
    ...{ column: 'gradNorm', member: 'grad_norm', color: '--grad', log: 'logGrad', isNoisy: true },
  },
  rate: {
    title: 'Learning rate',
    label: 'Learning rate by step',
    ...{ column: 'rate', member: 'lr', color: '--rate', log: 'logRate', isNoisy: false },
  },
  speed: {
    title: 'Speed',
    label: 'Tokens per second by step',
    ...{
      column: 'speed',
      member: 'tokens_per_second',
      color: '--speed',
      log: 'logSpeed',
      isNoisy: true,
    },
  },
};

/** The curves of numbers that the run reports; the loss always, and all before the first step. */
export function reported(
  names: readonly CurveName[],
  facts: readonly StepFacts[],
): readonly CurveName[] {
  if (facts.length === 0) return names;
  const isTold = (name: CurveName): boolean =>
    facts.some((each) => each[kCurves[name].member] !== undefined);
  return names.filter((name) => name === 'loss' || isTold(name));
}

/** The unit of a curve. */
export function unitOf({ column }: Pick<Curve, 'column'>, tokenizer: Tokenizer): string {
  switch (column) {
    case 'loss':
      return lossUnit(tokenizer);
    case 'gradNorm':
      return 'L2';
    case 'rate':
      return 'step size';
    case 'speed':
      return 'tokens/s';
  }
}

type Values = readonly (number | null)[];

/** The loss of another run, as a thin line. */
export interface OtherLoss {
  readonly label: string;
  readonly color: string;
  readonly losses: readonly StepLoss[];
}

export function linesOf(
  { column, title, color, isNoisy }: Curve,
  others: readonly OtherLoss[] = [],
): readonly LineStyle[] {
  const own: readonly LineStyle[] = isNoisy
    ? [
        { label: title, color, kind: 'faint' },
        { label: `${title}, smoothed`, color, kind: 'line' },
      ]
    : [{ label: title, color, kind: 'line' }];
  if (column !== 'loss') return own;
  const entropy: LineStyle = { label: 'unigram entropy', color: '--entropy', kind: 'dashed' };
  const thin = others.map(({ label, color: own }): LineStyle => ({
    label,
    color: own,
    kind: 'thin',
  }));
  return [entropy, ...thin, ...own, { label: 'valid', color: '--valid', kind: 'points' }];
}

/** The values of the lines, in their order. */
export function valuesOf(
  { column, isNoisy }: Curve,
  columns: Columns,
  smoothing: number,
  entropy: number | null,
  others: readonly OtherLoss[] = [],
): readonly Values[] {
  const raw = columns[column];
  const own = isNoisy ? [raw, debiasedEma(raw, smoothing)] : [raw];
  if (column !== 'loss') return own;
  const thin = others.map(({ losses }) => debiasedEma(lossesAt(columns.steps, losses), smoothing));
  return [columns.steps.map(() => entropy), ...thin, ...own, columns.validLoss];
}

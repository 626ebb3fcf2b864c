import type { RunEvent } from '../../core/store/event';
import type { AlarmFacts } from '../../protocol/alarms';
import type { PlanEntry, RunFacts } from '../../protocol/messages';
import { curveOfRecords } from '../../ui/alarms/alarm_draft';
import type { Baselines } from '../../ui/baselines.svelte';
import type { LineStyle } from '../../ui/charts/line_style';
import type { TraitsFrame } from './frame';
import { isOn, limitsOf, setAt } from './limits';
import { axisOf, firstOf, lineOf, type Over, type Trait, traitMap, valuesAt } from './trait_series';

type ChartFrame = Pick<TraitsFrame, 'layers' | 'layer' | 'overSteps' | 'query'>;

/** The content of the chart. */
export interface ChartAsk {
  readonly frame: ChartFrame;
  /** The shown traits. */
  readonly traits: readonly Trait[];
  /** The frame of the run beside, its name and all its traits; null without such a run. */
  readonly other: {
    readonly frame: ChartFrame;
    readonly name: string;
    readonly traits: readonly Trait[];
  } | null;
  readonly over: Over;
  readonly isDifference: boolean;
  readonly alarms: readonly AlarmFacts[];
  /** The entry of the frame's records; undefined if their plan is not known. */
  readonly entry: PlanEntry | undefined;
  readonly baselines: Pick<Baselines, 'of'>;
  readonly sets: RunFacts['prompt_sets'];
  readonly events: readonly Pick<RunEvent, 'step' | 'what'>[];
  /** The frame has every step from the first step of the run on. */
  readonly isWhole: boolean;
}

type Line = readonly (number | null)[];

export interface TraitChart {
  readonly steps: readonly number[];
  readonly values: readonly Line[];
  /** The curves, then the limits of alarms. */
  readonly styles: readonly LineStyle[];
  /** The names of alarms on these curves without a limit that can be drawn. */
  readonly unlimited: readonly string[];
}

interface StyledLine {
  readonly style: LineStyle;
  readonly values: Line;
}

/** The curves of the traits in the frame's layer, those of the run beside, and the alarms' limits. */
export function chartOf(ask: ChartAsk): TraitChart {
  const { frame, traits, other } = ask;
  const steps = axisOf(frame.overSteps.steps, other?.frame.overSteps.steps ?? []);
  const alarms = traits.flatMap((trait) => alarmsOn(ask, trait));
  const lines = [
    ...traits.map((trait) => ownLine(ask, trait, steps)),
    ...traits.flatMap((trait) => besideLine(ask, trait, steps)),
    ...alarms.flatMap(({ name, color, limits }) =>
      limits.map((limit) => limitLine(name, color, steps, limit)),
    ),
  ];
  return {
    steps,
    values: lines.map(({ values }) => values),
    styles: lines.map(({ style }) => style),
    unlimited: alarms.filter(({ limits }) => limits.length === 0).map(({ name }) => name),
  };
}

function ownLine(
  { frame, over, isDifference }: ChartAsk,
  { name, index, color }: Trait,
  axis: readonly number[],
): StyledLine {
  const line = lineOf(
    traitMap(frame, index, over, isDifference),
    frame.layers.indexOf(frame.layer),
  );
  const before = axis.indexOf(frame.overSteps.steps[0]);
  const values = axis.map((_, at) => line[at - before] ?? null);
  return { style: { label: name, color, kind: 'bold' }, values };
}

function besideLine(
  { frame, other, over, isDifference }: ChartAsk,
  { name, color }: Trait,
  axis: readonly number[],
): readonly StyledLine[] {
  const trait = other?.traits.find((each) => each.name === name);
  const row = other?.frame.layers.indexOf(frame.layer) ?? -1;
  if (other === null || trait === undefined || row < 0) return [];
  const line = lineOf(traitMap(other.frame, trait.index, over, isDifference), row);
  const values = valuesAt(axis, other.frame.overSteps.steps, line);
  return [{ style: { label: `${name}, ${other.name}`, color, kind: 'thin' }, values }];
}

function limitLine(
  alarm: string,
  color: string,
  axis: readonly number[],
  limit: number,
): StyledLine {
  const style: LineStyle = { label: `limit of ${alarm}`, color, kind: 'dashed' };
  return { style, values: axis.map(() => limit) };
}

/** The alarms on the curve of a trait, and their limits on the axis of the chart. */
function alarmsOn(
  { frame, over, isDifference, alarms, entry, baselines, sets, events, isWhole }: ChartAsk,
  { name, index, color }: Trait,
): readonly {
  readonly name: string;
  readonly color: string;
  readonly limits: readonly number[];
}[] {
  const curve = curveOfRecords({ vector: name, over }, frame, sets, entry);
  if (curve === undefined) return [];
  const row = frame.layers.indexOf(frame.layer);
  const base = isDifference ? (firstOf(frame, index, row, over) ?? 0) : 0;
  const { steps } = frame.overSteps;
  const values = lineOf(traitMap(frame, index, over, false), row);
  const baseline = entry === undefined ? null : baselines.of(entry, name, frame.layer);
  return alarms
    .filter((alarm) => isOn(alarm, curve, frame.layer))
    .map((alarm) => {
      const line = { steps, values, since: setAt(events, alarm.name), isWhole, baseline };
      const limits = limitsOf(alarm, line).map((limit) => limit - base);
      return { name: alarm.name, color, limits };
    });
}

import type { RunEvent } from '../../core/store/event';
import type { AlarmRule } from '../../protocol/alarms';
import { parseLayers } from '../../protocol/layers';
import type { AlarmCurve } from '../../ui/alarms/alarm_draft';
import type { Baseline } from '../../ui/baseline_store';

/** Whether an alarm watches the line of a layer in the curve. */
export function isOn(rule: AlarmRule, curve: AlarmCurve, layer: number): boolean {
  const layers = rule.layers === undefined ? undefined : parseLayers(rule.layers);
  return (
    rule.vector !== undefined &&
    rule.point === curve.point &&
    rule.vector === curve.vector &&
    (rule.over ?? 'mean') === (curve.over ?? 'mean') &&
    (rule.direction ?? 'value') === (curve.direction ?? 'value') &&
    (rule.prompts ?? '') === (curve.prompts ?? '') &&
    (rule.mean_over ?? '') === (curve.mean_over ?? '') &&
    (rule.phase ?? 'train') === (curve.phase ?? 'train') &&
    (layers === undefined || layers.includes(layer))
  );
}

/** The line of a layer over the steps, as far as the page has it. */
export interface AlarmedLine {
  readonly steps: readonly number[];
  readonly values: readonly (number | null)[];
  /** The step at which the alarm was set; its values come after this step. */
  readonly since: number;
  /** The line has the first values of the run. */
  readonly isWhole: boolean;
  /** Of the run's start; null if the page does not know it. */
  readonly baseline: Baseline | null;
}

/** The numbers at which an alarm fires; none if its test has no fixed limits, or if they are not known. */
export function limitsOf(rule: AlarmRule, line: AlarmedLine): readonly number[] {
  const { test, value, low, high } = rule;
  if (rule.baseline === true && line.baseline === null) return [];
  const base = rule.baseline === true ? (line.baseline?.mean ?? 0) : 0;
  switch (test) {
    case 'above':
    case 'below':
      return value === undefined ? [] : [base + value];
    case 'range':
      return low === undefined || high === undefined ? [] : [base + low, base + high];
    case 'sigma':
      return sigmaLimits(rule, rule.baseline === true ? line.baseline : firstValues(rule, line));
    default:
      return [];
  }
}

function sigmaLimits({ k = 0, side = 'both' }: AlarmRule, of: Baseline | null): readonly number[] {
  if (of === null || of.deviation === null) return [];
  const far = k * of.deviation;
  return [
    ...(side === 'above' ? [] : [of.mean - far]),
    ...(side === 'below' ? [] : [of.mean + far]),
  ];
}

/**
 * The mean and the standard deviation (n - 1) of the first values, as in docs/alarms.md. Null if they are not
 * known: the last values, which an alarm without `first` takes, change.
 */
function firstValues(
  { first = 0 }: AlarmRule,
  { steps, values, since, isWhole }: AlarmedLine,
): Baseline | null {
  if (!isWhole && (steps[0] ?? Infinity) > since) return null;
  const known = values.filter((value, at): value is number => value !== null && steps[at] > since);
  const taken = known.slice(0, first);
  if (first < 2 || taken.length < first) return null;
  const mean = taken.reduce((sum, each) => sum + each, 0) / first;
  const squares = taken.reduce((sum, each) => sum + (each - mean) ** 2, 0);
  return { mean, deviation: Math.sqrt(squares / (first - 1)) };
}

const kSet = /^alarm\/set\/\d+\/(.*)$/s;

/** The step at which an alarm was last set; 0 if no event says it. */
export function setAt(events: readonly Pick<RunEvent, 'step' | 'what'>[], name: string): number {
  return events.findLast(({ what }) => kSet.exec(what)?.[1] === name)?.step ?? 0;
}

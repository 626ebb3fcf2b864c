import type { RunEvent } from '../../core/store/event';
import type { AlarmRule } from '../../protocol/alarms';
import { parseLayers } from '../../protocol/layers';
import type { AlarmCurve } from '../../ui/alarms/alarm_draft';

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
  /** The mean before the run's first step; null if the page does not know it. */
  readonly baseline: number | null;
}

/** The numbers at which an alarm fires; none if its test has no fixed limits, or if they are not known. */
export function limitsOf(rule: AlarmRule, line: AlarmedLine): readonly number[] {
  const { test, value, low, high } = rule;
  const base = rule.baseline === true ? line.baseline : 0;
  if (base === null) return [];
  switch (test) {
    case 'above':
    case 'below':
      return value === undefined ? [] : [base + value];
    case 'range':
      return low === undefined || high === undefined ? [] : [base + low, base + high];
    case 'sigma':
      return sigmaLimits(rule, line);
    default:
      return [];
  }
}

/**
 * The limits about the mean of the first values, as in docs/alarms.md. Without `first` they are not known:
 * the last values change, and the hub does not state the deviation of a run's baseline.
 */
function sigmaLimits(
  { k = 0, first = 0, side = 'both' }: AlarmRule,
  { steps, values, since, isWhole }: AlarmedLine,
): readonly number[] {
  if (!isWhole && (steps[0] ?? Infinity) > since) return [];
  const known = values.filter((value, at): value is number => value !== null && steps[at] > since);
  const baseline = known.slice(0, first);
  if (first < 2 || baseline.length < first) return [];
  const mean = baseline.reduce((sum, each) => sum + each, 0) / first;
  const squares = baseline.reduce((sum, each) => sum + (each - mean) ** 2, 0);
  const far = k * Math.sqrt(squares / (first - 1));
  return [...(side === 'above' ? [] : [mean - far]), ...(side === 'below' ? [] : [mean + far])];
}

const kSet = /^alarm\/set\/\d+\/(.*)$/s;

/** The step at which an alarm was last set; 0 if no event says it. */
export function setAt(events: readonly Pick<RunEvent, 'step' | 'what'>[], name: string): number {
  return events.findLast(({ what }) => kSet.exec(what)?.[1] === name)?.step ?? 0;
}

import type { StepFacts } from '../../protocol/messages';
import type { RunEvent } from './event';

const kWatched = [
  ['loss', 'Loss'],
  ['grad_norm', 'Grad norm'],
] as const;

/** The steps at which a scalar of the run stops being finite. */
export function alarmsOf(facts: readonly StepFacts[]): readonly RunEvent[] {
  return kWatched.flatMap(([member, name]) => {
    const alarms: RunEvent[] = [];
    let bad = false;
    for (const each of facts) {
      const value = each[member];
      if (value === undefined) continue;
      // The hub's history writes NaN as null.
      const isBad = value === null || !Number.isFinite(value);
      if (isBad && !bad) alarms.push(alarm(each.step, `${name} is ${nameOf(value)}`));
      bad = isBad;
    }
    return alarms;
  });
}

function nameOf(value: number | null): string {
  if (value === null || Number.isNaN(value)) return 'NaN';
  return value > 0 ? '+Inf' : '−Inf';
}

/** The event of an alarm that begins at a step. */
function alarm(step: number, text: string): RunEvent {
  const common = { kind: 'alarm', tone: 'bad', time: 0, who: '' } as const;
  const dropped = { records: 0, messages: 0 };
  return { ...common, ...dropped, step, lastStep: step, text, what: `alarm/${text}` };
}

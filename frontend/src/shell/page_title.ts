import { formatInteger, formatNumber } from '../base/format';
import type { Chip } from '../core/session/connection_chip';
import type { StepFacts } from '../protocol/messages';

/** The sign in the title, by the word of the chip, which shows the state of run and connection. */
const kSigns: Readonly<Record<string, string>> = {
  live: '▶',
  evaluating: '▶',
  lagging: '▶',
  paused: '⏸',
  replay: '⏪',
  ended: '■',
  stopped: '■',
  ready: '◌',
  lost: '⚠',
  refused: '⚠',
  reconnecting: '⚠',
};

export interface TitleFacts {
  readonly chip: Pick<Chip, 'word'>;
  readonly newestStep: number;
  readonly latest: Pick<StepFacts, 'loss'> | null;
  readonly warnings: readonly string[];
}

/** The title of the browser's tab: "⏸ 1 969 · 1.94 · my run"; it begins with ⚠ if there are warnings. */
export function titleOf({ chip, newestStep, latest, warnings }: TitleFacts, name: string): string {
  const sign = warnings.length > 0 ? '⚠' : (kSigns[chip.word] ?? '…');
  const loss = latest?.loss;
  const facts = [
    ...(newestStep > 0 ? [formatInteger(newestStep)] : []),
    ...(loss === undefined ? [] : [formatNumber(loss ?? Number.NaN, 3)]),
    name,
  ];
  return `${sign} ${facts.join(' · ')}`;
}

import { formatNumber } from '../base/format';
import { replayCommand } from '../base/replay_command';
import type { RunFacts, RunState, StepFacts } from '../protocol/messages';

/** The content of the banner after the end of a run. */
export interface RunEnd {
  readonly tone: 'idle' | 'bad';
  readonly text: string;
  /** The text before the command, or instead of it. */
  readonly advice: string;
  /** The shell command that replays the recording; null without a recording. */
  readonly command: string | null;
}

const kEnds: ReadonlyMap<RunState['phase'], string> = new Map([
  ['finished', 'The run ended at step'],
  ['stopped', 'The run was stopped after step'],
  ['lost', 'The trainer was lost at step'],
]);

/** The banner's content; null while the run continues. `valid` is the last validation loss. */
export function endOf(
  state: RunState | null,
  run: RunFacts | null,
  latest: StepFacts | null,
  valid: number | undefined,
): RunEnd | null {
  const what = state === null ? undefined : kEnds.get(state.phase);
  if (state === null || what === undefined) return null;
  const losses = [lossText('loss', latest?.loss), lossText('valid', valid)];
  const step = Math.max(state.step, latest?.step ?? 0);
  const isLost = state.phase === 'lost';
  const text = [`${what} ${step}`, ...losses.filter((each) => each !== '')].join(' · ');
  return { tone: isLost ? 'bad' : 'idle', text, ...replayOf(run) };
}

function lossText(name: string, value: number | null | undefined): string {
  return value === undefined ? '' : `${name} ${formatNumber(value ?? Number.NaN, 4)}`;
}

function replayOf(run: RunFacts | null): Pick<RunEnd, 'advice' | 'command'> {
  const file = run?.recording ?? '';
  if (file !== '') {
    const host = run?.host === undefined ? '' : ` on ${run.host}`;
    const where = file.startsWith('/') ? host : `${host}, in the directory where it was started`;
    return { advice: `Replay it${where}:`, command: replayCommand(file) };
  }
  const advice =
    'The run has no recording: the hub could not write one. The output of the run shows the reason.';
  return { advice, command: null };
}

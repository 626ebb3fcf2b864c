import type { InterventionsFacts } from '../../protocol/interventions';
import type { Control, Notification, RunState } from '../../protocol/messages';
import type { ToastText } from '../../core/session/toasts.svelte';

/** The state of the page before a notification. */
export interface Before {
  readonly phase: RunState['phase'] | undefined;
  readonly holder: Control['holder'];
  /** The page's own session. */
  readonly me: string;
  readonly plan: number | undefined;
  /** Names of the programs in force. */
  readonly programs: readonly string[];
  /** The page has asked for single steps: each step ends with a pause. */
  readonly steps: boolean;
}

/** The toast of a notification, for every view of the page. `resume` undoes a pause. */
export function newsOf(
  { event, params }: Notification,
  before: Before,
  resume: () => void,
): ToastText | undefined {
  switch (event) {
    case 'state':
      return pauseNews(params, before, resume);
    case 'plan': {
      if (params.plan.number === before.plan) return undefined;
      const text = `Plan ${params.plan.number} is in force from step ${params.step} on${byWhom(before)}`;
      return { key: 'plan', text, tone: 'good' };
    }
    case 'interventions':
      return programNews(params, before);
    case 'control':
      return controlNews(params, before);
    default:
      return undefined;
  }
}

function byWhom({ holder, me }: Before): string {
  return holder === null || holder.session === me ? '' : `, by ${holder.name}`;
}

function pauseNews(state: RunState, before: Before, resume: () => void): ToastText | undefined {
  const begins =
    state.phase === 'paused' && before.phase !== 'paused' && before.phase !== undefined;
  if (!begins || before.steps) return undefined;
  const text = `Paused after step ${state.step}${byWhom(before)}`;
  const mine = before.holder?.session === before.me;
  const undo = mine ? { action: { text: 'Undo', run: resume } } : {};
  return { key: 'pause', text, tone: 'warn', seconds: 3, ...undo };
}

/** The reasons why programs are no longer in force. */
const kEnded: Readonly<Record<string, readonly [text: string, tone: ToastText['tone']]>> = {
  remove: ['', 'plain'],
  expired: [': the set number of steps is over', 'plain'],
  lease: [': the lease of control ended', 'warn'],
  failed: [' because of an error', 'bad'],
};

function programNews(facts: InterventionsFacts, before: Before): ToastText | undefined {
  const { step, programs, reason } = facts;
  if (reason === 'apply') {
    const names = programs.filter(({ since }) => since === step).map(({ name }) => name);
    if (names.length === 0) return undefined;
    const text = `${programsText(names)} in force from step ${step} on${byWhom(before)}`;
    return { key: 'programs', text, tone: 'good' };
  }
  const ended = kEnded[reason];
  const gone = before.programs.filter((name) => !programs.some((each) => each.name === name));
  if (ended === undefined || gone.length === 0) return undefined;
  const [why, tone] = ended;
  const by = reason === 'remove' ? byWhom(before) : '';
  const text = `${programsText(gone)} no longer in force from step ${step} on${why}${by}`;
  return { key: 'programs', text, tone };
}

function programsText(names: readonly string[]): string {
  return names.length === 1 ? `Program ${names[0]} is` : `Programs ${names.join(', ')} are`;
}

function controlNews({ holder }: Control, before: Before): ToastText | undefined {
  const former = before.holder;
  if (holder === null || former === null || former.session === holder.session) return undefined;
  const lost = former.session === before.me;
  const won = holder.session === before.me;
  if (won) {
    return { key: 'control', text: `You took over control from ${former.name}`, tone: 'good' };
  }
  const text = `${holder.name} took over control${lost ? '' : ` from ${former.name}`}`;
  return { key: 'control', text, tone: lost ? 'warn' : 'plain' };
}

import { bytesOf } from '../../base/base64';
import { stateOf } from '../../core/registry/state_of';
import { queryOf } from '../../core/session/queries';
import type { Session } from '../../core/session/session';
import { closest, watchedEntries } from '../../core/session/watched';
import type { ViewFrame } from '../../core/store/frames';
import type { HubError, PlanEntry } from '../../protocol/messages';
import { type PromptAnswer, promptAnswerSchema } from '../../protocol/prompts';
import { traitEntries } from './trait_entries';

/** The number of the prompt set of these records; those of typed prompts come after it. */
export const kResponseSet = 0xfffffffd;

interface Ran {
  readonly run: string;
  readonly text: string;
  readonly answer: PromptAnswer;
}

/**
 * A prompt with its response, run through the current model for its projections: a run does not trace
 * the tokens that it generates.
 */
export class ResponseColors {
  frame = $state.raw<Extract<ViewFrame, { kind: 'projection' }> | null>(null);
  error = $state.raw<HubError | null>(null);
  private ran = $state.raw<Ran | null>(null);

  constructor(
    private readonly session: Pick<Session, 'run' | 'plan' | 'point' | 'view' | 'control' | 'link'>,
  ) {}

  /** The step whose weights computed the projections. */
  get step(): number {
    return this.ran?.answer.step ?? 0;
  }

  /** Whether the projections are those of this text. */
  isOf(text: string): boolean {
    return this.ran?.text === text && this.ran.run === this.session.run?.id;
  }

  async run(text: string): Promise<void> {
    const { session } = this;
    const entry = session.plan?.entries[session.point?.entry ?? -1];
    if (entry === undefined) return;
    const params = { text, plan: { entries: entriesFor(entry) } };
    const outcome = await session.control.carryOut('prompt.run', params, promptAnswerSchema);
    this.error = outcome.ok ? null : outcome.error;
    if (!outcome.ok) return;
    session.link.keep(bytesOf(outcome.value.records.off), kResponseSet);
    this.frame = null;
    this.ran = { run: session.run?.id ?? '', text, answer: outcome.value };
  }

  /** Asks for the projections on the chosen trait. */
  async show(): Promise<void> {
    const { ran, session } = this;
    if (ran === null) return;
    const { tokens, plan } = ran.answer;
    const entry = traitEntries(watchedEntries(session.run, plan))[0];
    if (entry === undefined) return;
    const lengths = [tokens.length];
    const query = queryOf(
      { ...entry, promptSet: kResponseSet, prompts: [ran.text], lengths },
      { ...session.view, row: 0, layout: 'one', pin: null },
      {
        plan: plan.number,
        phase: 'eval',
        layer: closest(entry.layers, session.view.layer),
        step: null,
        until: null,
        every: 1,
        run: '',
      },
    );
    const view = await session.link.whole(query);
    if (this.ran !== ran) return;
    this.frame = 'frame' in view && view.frame.kind === 'projection' ? view.frame : null;
  }
}

function entriesFor({ point, compressor, layers, dtype }: PlanEntry): readonly PlanEntry[] {
  return [{ point: 'InputTokens' }, { point, compressor, layers, dtype }];
}

export const responseColorsOf = stateOf((session) => new ResponseColors(session));

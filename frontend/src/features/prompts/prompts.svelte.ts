import { bytesOf } from '../../base/base64';
import { activePrompts, type HubError, type RunFacts } from '../../protocol/messages';
import {
  kTypedPrompt,
  promptAnswerSchema,
  promptKeptSchema,
  type Side,
} from '../../protocol/prompts';
import { stateOf } from '../../core/registry/state_of';
import { readStored, writeStored } from '../../core/session/preferences';
import type { Session } from '../../core/session/session';
import type { WatchedEntry } from '../../core/session/watched';
import type { FramePair } from '../../core/store/frame_pair';
import type { ViewFrame } from '../../core/store/frames';
import {
  type Frames,
  kNoFrames,
  pairOf,
  plainEntries,
  type Typed,
  typedEntries,
  typedQuery,
} from './typed';

const kTextKey = 'tensor-tracer.prompt';

/**
 * The typed prompt, the last prompt that ran, and the prompts that the run keeps. It outlives the tab
 * that asks for it first. Therefore nothing in it is $derived: a $derived value would end with the tab.
 */
export class Prompts {
  name = $state('');
  refused = $state.raw<HubError | null>(null);
  notice = $state('');
  frames = $state.raw<Frames>(kNoFrames);

  private answered = $state.raw<Typed | null>(null);
  private current = $state(readStored(kTextKey, 'sessionStorage') ?? '');

  constructor(private readonly session: Session) {}

  get text(): string {
    return this.current;
  }

  set text(text: string) {
    this.current = text;
    writeStored(kTextKey, text, 'sessionStorage');
  }

  /** The last prompt that ran in this run. */
  get typed(): Typed | null {
    const { answered, session } = this;
    return answered !== null && answered.run === session.run?.id ? answered : null;
  }

  get entries(): readonly WatchedEntry[] {
    return this.typed === null ? [] : typedEntries(this.session.run, this.typed);
  }

  get entry(): WatchedEntry | null {
    const { entries } = this;
    const wanted = this.session.view.promptPoint;
    return entries.find(({ name }) => name === wanted) ?? entries[0] ?? null;
  }

  get kept(): RunFacts['prompt_sets'] {
    return this.session.run === null ? [] : activePrompts(this.session.run);
  }

  get waits(): boolean {
    return this.session.control.waits('prompt.');
  }

  /** on − off of the shown entry; null if there is no difference to show. */
  get pair(): FramePair | null {
    return pairOf(this.frames);
  }

  /** Programs were active when the prompt ran. */
  get hasOn(): boolean {
    return this.typed?.answer.records.on !== undefined;
  }

  async run(): Promise<void> {
    const { text, session } = this;
    const run = session.run?.id ?? '';
    const outcome = await session.control.carryOut('prompt.run', { text }, promptAnswerSchema);
    this.refused = outcome.ok ? null : outcome.error;
    this.notice = '';
    if (!outcome.ok) return;
    const { records, plan } = outcome.value;
    for (const side of ['off', 'on'] as const) {
      const sent = records[side];
      if (sent !== undefined) session.link.keep(bytesOf(sent), kTypedPrompt[side]);
    }
    session.plans.lend(plan);
    this.answered = { run, text, answer: outcome.value };
  }

  async keep(): Promise<void> {
    const { text, typed } = this;
    const name = this.name.trim();
    const plan = typed?.text === text ? { entries: plainEntries(typed.answer) } : null;
    const params = { name, text, ...(plan === null ? {} : { plan }) };
    await this.change('prompt.keep', params, (step) => `${name} is kept from step ${step} on`);
  }

  async remove(name: string): Promise<void> {
    const said = (step: number): string => `${name} is removed from step ${step} on`;
    await this.change('prompt.remove', { name }, said);
  }

  /** Asks for the shown frames, after a run and when the view changes. */
  async show(): Promise<void> {
    const { typed, entry } = this;
    if (typed === null || entry === null) {
      this.frames = kNoFrames;
      return;
    }
    const [off, on] = await Promise.all([
      this.frameOf(typed, entry, 'off'),
      this.frameOf(typed, entry, 'on'),
    ]);
    const isShown = this.typed === typed && this.entry?.name === entry.name;
    if (isShown) this.frames = { off, on };
  }

  private async change(
    method: string,
    params: object,
    said: (step: number) => string,
  ): Promise<void> {
    const outcome = await this.session.control.carryOut(method, params, promptKeptSchema);
    this.refused = outcome.ok ? null : outcome.error;
    this.notice = outcome.ok ? said(outcome.value.step) : '';
  }

  private async frameOf(typed: Typed, entry: WatchedEntry, side: Side): Promise<ViewFrame | null> {
    if (typed.answer.records[side] === undefined) return null;
    const view = await this.session.link.whole(typedQuery(this.session, entry, typed, side));
    return 'frame' in view ? view.frame : null;
  }
}

export const promptsOf = stateOf((session) => new Prompts(session));

import { bytesOf } from '../../base/base64';
import {
  activePrompts,
  type HubError,
  kLogitsPoint,
  type PlanEntry,
} from '../../protocol/messages';
import {
  kTypedPrompt,
  promptAnswerSchema,
  promptKeptSchema,
  type Side,
} from '../../protocol/prompts';
import { viewOf } from '../../core/registry/registry';
import { stateOf } from '../../core/registry/state_of';
import { readStored, writeStored } from '../../core/session/preferences';
import type { Session } from '../../core/session/session';
import type { WatchedEntry } from '../../core/session/watched';
import type { FramePair } from '../../core/store/frame_pair';
import type { ViewFrame } from '../../core/store/frames';
import type { Predictions } from './standing';
import { type Typed, typedEntries, typedQuery } from './typed';

const kTextKey = 'tensor-tracer.prompt';

type Frames = Readonly<Record<Side, ViewFrame | null>>;
const kNoFrames: Frames = { off: null, on: null };

/** The prompt that is typed, the last one that ran, and the prompts that the run keeps. */
export class Prompts {
  name = $state('');
  typed = $state.raw<Typed | null>(null);
  refused = $state.raw<HubError | null>(null);
  notice = $state('');
  /** The name of the shown entry; '' for the first. */
  chosen = $state('');
  frames = $state.raw<Frames>(kNoFrames);
  predictions = $state.raw<Frames>(kNoFrames);

  readonly entries = $derived.by(() =>
    this.typed === null ? [] : typedEntries(this.session.run, this.typed),
  );
  readonly entry = $derived(
    this.entries.find(({ name }) => name === this.chosen) ??
      this.entries.find(({ facts }) => facts.name !== kLogitsPoint) ??
      null,
  );
  readonly kept = $derived.by(() =>
    this.session.run === null ? [] : activePrompts(this.session.run),
  );
  readonly waits = $derived.by(() => this.session.control.waits('prompt.'));
  /** Both sides of the shown entry; null: only one side. */
  readonly pair = $derived.by(() => pairOf(this.frames));

  private current = $state(readStored(kTextKey, 'sessionStorage') ?? '');

  constructor(private readonly session: Session) {}

  get text(): string {
    return this.current;
  }

  set text(text: string) {
    this.current = text;
    writeStored(kTextKey, text, 'sessionStorage');
  }

  async run(): Promise<void> {
    const { text } = this;
    const outcome = await this.session.control.carryOut('prompt.run', { text }, promptAnswerSchema);
    this.refused = outcome.ok ? null : outcome.error;
    this.notice = '';
    if (!outcome.ok) return;
    this.typed = { text, answer: outcome.value };
    this.session.plans.add(outcome.value.plan);
    this.send(this.typed);
    await this.show();
  }

  async keep(): Promise<void> {
    const { text, typed } = this;
    const name = this.name.trim();
    const plan = typed?.text === text ? { entries: typed.answer.plan.entries.map(plain) } : null;
    const params = { name, text, ...(plan === null ? {} : { plan }) };
    const said = (step: number): string => `${name} is kept from step ${step} on`;
    await this.change('prompt.keep', params, said);
  }

  async remove(name: string): Promise<void> {
    await this.change(
      'prompt.remove',
      { name },
      (step) => `${name} is removed from step ${step} on`,
    );
  }

  /** Asks for what is shown: after a run, and when layer, head or vector changes. */
  async show(): Promise<void> {
    const { typed, entry, entries } = this;
    if (typed === null) return;
    const logits = entries.find(
      ({ facts, form }) => facts.name === kLogitsPoint && form === 'topk',
    );
    const [frames, predictions] = await Promise.all([
      this.framesOf(typed, entry),
      this.framesOf(typed, logits ?? null),
    ]);
    if (this.typed !== typed) return;
    this.predictions = predictions;
    if (this.entry === entry) this.frames = frames;
  }

  predictionsOf(side: Side): Predictions | null {
    const frame = this.predictions[side];
    return frame?.kind === 'topk' ? frame : null;
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

  private send({ answer }: Typed): void {
    for (const side of ['off', 'on'] as const) {
      const records = answer.records[side];
      if (records !== undefined) this.session.link.keep(bytesOf(records), kTypedPrompt[side]);
    }
  }

  private async framesOf(typed: Typed, entry: WatchedEntry | null): Promise<Frames> {
    if (entry === null) return kNoFrames;
    const ask = async (side: Side): Promise<ViewFrame | null> => {
      if (typed.answer.records[side] === undefined) return null;
      const query = typedQuery(this.session, entry, typed, side);
      const view = await this.session.link.whole(query);
      return 'frame' in view ? view.frame : null;
    };
    const find = async (): Promise<Frames> => ({ off: await ask('off'), on: await ask('on') });
    const frames = await find();
    if (frames.off !== null) return frames;
    // The store has forgotten them: newer records of the run came.
    this.send(typed);
    return find();
  }
}

export const promptsOf = stateOf((session) => new Prompts(session));

/** The entry as a plan for one prompt has it: no entry names a prompt set. */
function plain(entry: PlanEntry): PlanEntry {
  return { ...entry, prompts: undefined };
}

function pairOf({ off, on }: Frames): FramePair | null {
  if (off === null || on === null || off.kind !== on.kind) return null;
  const compare = viewOf(on).compare;
  if (compare === undefined) return null;
  const base = { kind: on.kind, a: on, b: off, layers: on.layers, sameTokens: true };
  return compare.pairOf({ ...base, names: { a: 'on', b: 'off' } });
}

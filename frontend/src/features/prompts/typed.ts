import { type Plan, type RunFacts, type Tokenizer } from '../../protocol/messages';
import { kTypedPrompt, type PromptAnswer, type Side } from '../../protocol/prompts';
import { viewOf } from '../../core/registry/registry';
import { queryOf } from '../../core/session/queries';
import type { Session } from '../../core/session/session';
import { closest, type WatchedEntry, watchedEntries } from '../../core/session/watched';
import type { FramePair } from '../../core/store/frame_pair';
import type { ViewFrame, ViewQuery } from '../../core/store/frames';

/** A prompt that ran, and its answer. */
export interface Typed {
  readonly run: string;
  readonly text: string;
  readonly answer: PromptAnswer;
}

/** The frames of one entry for a prompt. Null if there are no records, or if no program was active. */
export type Frames = Readonly<Record<Side, ViewFrame | null>>;
export const kNoFrames: Frames = { off: null, on: null };

const kTokenBytes = new TextEncoder();

/** The number of tokens of a text; null if only the trainer knows it. */
export function tokensOf(text: string, tokenizer: Tokenizer): number | null {
  return tokenizer === 'byte' ? kTokenBytes.encode(text).length : null;
}

/** The entries of the answer's plan that can be shown. */
export function typedEntries(run: RunFacts | null, { answer, text }: Typed): WatchedEntry[] {
  return watchedEntries(run, { ...answer.plan, entries: plainEntries(answer) }).map((entry) => ({
    ...entry,
    phases: [],
    promptSet: kTypedPrompt.off,
    prompts: [text],
    lengths: [answer.tokens.length],
  }));
}

/** The entries as in a plan for one prompt: without names of prompt sets. */
export function plainEntries({ plan }: PromptAnswer): Plan['entries'] {
  return plan.entries.map((entry) => ({ ...entry, prompts: undefined }));
}

/** The query for the records of an entry on one side. */
export function typedQuery(
  { view }: Pick<Session, 'view'>,
  entry: WatchedEntry,
  { answer }: Typed,
  side: Side,
): ViewQuery {
  const shown = { ...view, row: 0, layout: 'one' as const };
  const query = queryOf(entry, shown, {
    plan: answer.plan.number,
    phase: 'eval',
    layer: closest(entry.layers, view.layer),
    step: null,
    until: null,
    every: 1,
    run: '',
  });
  return { ...query, promptSet: kTypedPrompt[side] };
}

/** on − off; null if the frames have no difference. */
export function pairOf({ off, on }: Frames): FramePair | null {
  if (off === null || on === null || off.kind !== on.kind) return null;
  const { compare } = viewOf(on);
  if (compare === undefined) return null;
  const base = { kind: on.kind, a: on, b: off, layers: on.layers, sameTokens: true };
  return compare.pairOf({ ...base, names: { a: 'on', b: 'off' } });
}

import { type Plan, type RunFacts } from '../../protocol/messages';
import { kTypedPrompt, type PromptAnswer, type Side } from '../../protocol/prompts';
import { queryOf } from '../../core/session/queries';
import type { Session } from '../../core/session/session';
import { closest, type WatchedEntry, watchedEntries } from '../../core/session/watched';
import type { ViewQuery } from '../../core/store/frames';

/** A prompt that ran, and what came of it. */
export interface Typed {
  readonly text: string;
  readonly answer: PromptAnswer;
}

const kTokenBytes = new TextEncoder();

/** How many tokens a text has; null: only the trainer knows. */
export function tokensOf(text: string, tokenizer: string): number | null {
  return tokenizer === 'byte' ? kTokenBytes.encode(text).length : null;
}

/** The entries of the answer's plan that can be shown. */
export function typedEntries(run: RunFacts | null, { answer, text }: Typed): WatchedEntry[] {
  const plan: Plan = { ...answer.plan, entries: answer.plan.entries.map(unnamed) };
  return watchedEntries(run, plan).map((entry) => ({
    ...entry,
    phases: [],
    promptSet: kTypedPrompt.off,
    prompts: [text],
  }));
}

function unnamed(entry: Plan['entries'][number]): Plan['entries'][number] {
  return { ...entry, prompts: undefined };
}

/** Asks the worker for what an entry took on one side. */
export function typedQuery(
  { view, tokenizer }: Pick<Session, 'view' | 'tokenizer'>,
  entry: WatchedEntry,
  { answer }: Typed,
  side: Side,
): ViewQuery {
  const shown = { ...view, row: 0, layout: 'one' as const };
  const query = queryOf(entry, shown, {
    plan: answer.plan.number,
    tokenizer,
    phase: 'eval',
    layer: closest(entry.layers, view.layer),
    step: answer.step,
    until: null,
    every: 1,
    run: '',
  });
  return { ...query, promptSet: kTypedPrompt[side] };
}

import type { StepFacts } from '../../protocol/messages';
import { keepsStep, strideFor } from '../store/series_store';
import type { HistoryClient } from './history_client';

// A page of the answer: small enough that the page's thread takes it between two pictures.
const kPageSteps = 10_000;

/** Scalars of the past, ascending; `stride`: how far they are thinned out. */
export type StepsListener = (facts: readonly StepFacts[], stride: number) => void;

/**
 * Reads all scalars of a run, the newest first, thinned out where they are very many. Ends early
 * once `current` says that nobody waits for them any more.
 */
export async function readPastSteps(
  client: HistoryClient,
  run: string,
  listener: StepsListener,
  current: () => boolean,
): Promise<void> {
  let last: number | null = null;
  let stride: number | undefined;
  for (;;) {
    const page: readonly StepFacts[] | undefined = await client.steps(run, last, kPageSteps);
    if (!current() || page === undefined || page.length === 0) return;
    stride ??= strideFor(page[page.length - 1].step);
    const thinned = stride;
    listener(
      page.filter((facts) => keepsStep(facts, thinned)),
      stride,
    );
    last = page[0].step - 1;
    if (page.length < kPageSteps || last < 1) return;
  }
}

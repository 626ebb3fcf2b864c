import type { StepFacts } from '../../protocol/messages';
import { keepsStep, strideFor } from '../store/series_store';
import type { HistoryClient } from './history_client';

// The steps of one answer: few enough that the page's thread can process them between two frames.
const kPageSteps = 10_000;

/** Receives past scalars, ascending, thinned out to every `stride`-th step. */
export type StepsListener = (facts: readonly StepFacts[], stride: number) => void;

/**
 * Reads all scalars of a run, the newest first. Very many scalars are thinned out. It stops early if
 * `current` returns false, because the scalars are then no longer needed.
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

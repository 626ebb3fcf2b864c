import type { ResponseFacts } from '../../protocol/messages';

/** The most responses to one prompt that are kept; the oldest are dropped first. */
export const kMaxResponses = 500;

/** The model's responses to the monitored prompts of a run. */
export class ResponseStore {
  /** By prompt, ascending by step. */
  private readonly kept = new Map<string, ResponseFacts[]>();

  clear(): void {
    this.kept.clear();
  }

  /** A response that is known already is replaced. */
  add(response: ResponseFacts): void {
    const key = keyOf(response.prompt_set, response.prompt);
    const known = this.kept.get(key) ?? [];
    const after = known.findIndex(({ step }) => step >= response.step);
    const at = after < 0 ? known.length : after;
    known.splice(at, known[at]?.step === response.step ? 1 : 0, response);
    this.kept.set(key, known.slice(-kMaxResponses));
  }

  /** The responses to a prompt up to a step, the newest first. */
  of(promptSet: number, prompt: number, until: number): readonly ResponseFacts[] {
    const known = this.kept.get(keyOf(promptSet, prompt)) ?? [];
    return known.filter(({ step }) => step <= until).reverse();
  }

  get isEmpty(): boolean {
    return this.kept.size === 0;
  }
}

function keyOf(promptSet: number, prompt: number): string {
  return `${promptSet}/${prompt}`;
}

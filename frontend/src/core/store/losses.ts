/** A step and its loss. */
export type StepLoss = readonly [step: number, loss: number];

/** The losses of another run, by step ascending. Parts may come in any order. */
export function withLosses(
  known: readonly StepLoss[],
  part: readonly StepLoss[],
): readonly StepLoss[] {
  const byStep = new Map([...known, ...part]);
  return [...byStep].sort(([a], [b]) => a - b);
}

/** The losses at these ascending steps, interpolated; null before the first and after the last. */
export function lossesAt(
  steps: readonly number[],
  losses: readonly StepLoss[],
): (number | null)[] {
  let next = 0;
  return steps.map((step) => {
    while (next < losses.length && losses[next][0] < step) next++;
    if (next === losses.length) return null;
    const [later, loss] = losses[next];
    if (later === step) return loss;
    if (next === 0) return null;
    const [earlier, before] = losses[next - 1];
    return before + ((loss - before) * (step - earlier)) / (later - earlier);
  });
}

import { spacingOf } from './spacing';

interface Thinned<T> {
  readonly items: readonly T[];
  /** The distance of two items if no item is missing; the newest item may be closer. */
  readonly spacing: number;
}

/**
 * At most `most` of the items: the first item in each cell of a grid of step numbers, and the newest
 * item. The grid does not move while steps arrive. If it becomes too fine, every second grid line is
 * removed.
 */
export function thinned<T extends { readonly step: number }>(
  all: readonly T[],
  every: number,
  most: number,
): Thinned<T> {
  const steps = all.map(({ step }) => step);
  const finest = spacingOf(steps, every);
  if (all.length <= most) return { items: all, spacing: finest };
  for (let spacing = finest; ; spacing *= 2) {
    const cellOf = (at: number): number => Math.floor(steps[at] / spacing);
    const items = all.filter(
      (_, at) => at === 0 || at === all.length - 1 || cellOf(at) !== cellOf(at - 1),
    );
    if (items.length <= most) return { items, spacing };
  }
}

import type { StepLoss } from '../../core/store/losses';
import type { OtherRunFacts, RunFacts } from '../../protocol/messages';
import type { OtherLoss } from '../../ui/charts/curves';

/** A run whose training this run continues, from the state after `step`. */
interface Ancestor {
  readonly run: OtherRunFacts;
  readonly step: number;
}

/** The losses by the id of the run. */
type Losses = Readonly<Partial<Record<string, readonly StepLoss[]>>>;

/** The parent, the parent of the parent and so on, while they are among the runs that the hub offers. */
export function ancestorsOf(
  run: Pick<RunFacts, 'parent'> | null,
  runs: readonly OtherRunFacts[],
): readonly Ancestor[] {
  const found: Ancestor[] = [];
  let parent = run?.parent;
  while (parent !== undefined) {
    const { id, step } = parent;
    const next = runs.find((each) => each.id === id);
    if (next === undefined || found.some((each) => each.run === next)) break;
    found.push({ run: next, step });
    parent = next.facts.parent;
  }
  return found;
}

/** The losses of the ancestors up to the checkpoints, ascending. */
export function pastLosses(ancestors: readonly Ancestor[], losses: Losses): readonly StepLoss[] {
  return ancestors
    .toReversed()
    .flatMap(({ run, step }) => losses[run.id]?.filter(([at]) => at <= step) ?? []);
}

/** The losses of the ancestors from the checkpoints on. Training went on from there without them. */
export function abandonedLines(
  ancestors: readonly Ancestor[],
  losses: Losses,
): readonly OtherLoss[] {
  return ancestors.flatMap(({ run: { id, name }, step }) => {
    const rest = losses[id]?.filter(([at]) => at >= step) ?? [];
    const label = `${name} after step ${step}`;
    const hasLater = rest.some(([at]) => at > step);
    return hasLater ? [{ label, color: '--ink-muted', losses: rest }] : [];
  });
}

import type { PlanEntry, PointFacts } from '../protocol/messages';
import { features } from '../core/registry/registry';
import { stateOf } from '../core/registry/state_of';
import { hindranceOf, type PlanOutcome } from '../core/session/controller.svelte';
import type { Session } from '../core/session/session';
import { watchedEntries } from '../core/session/watched';
import { keyOfEntry } from '../core/store/series_key';

const kToast = 'traced';
const kSeconds = 20;

/** One click adds a point without an entry to the plan in force, and another click removes it again. */
export class Tracing {
  constructor(
    private readonly session: Pick<
      Session,
      'run' | 'plan' | 'connection' | 'replay' | 'control' | 'view' | 'choosePoint' | 'toasts'
    >,
  ) {}

  /** The points that the plan does not have, in the order of the forward. */
  get untraced(): readonly PointFacts[] {
    const { run, plan } = this.session;
    if (run === null || plan === null) return [];
    const traced = plan.entries.map(({ point }) => point);
    return run.points.filter(({ name, features }) => features > 0 && !traced.includes(name));
  }

  /** The reason why the page may not change the plan now; undefined if it may. */
  get hindrance(): string | undefined {
    const { connection, replay, control } = this.session;
    if (replay !== null) return 'a recording cannot be traced again';
    return connection.kind === 'open' ? hindranceOf(control) : 'the hub is not connected';
  }

  /** Adds an entry for the point, and shows it. */
  async trace(point: string, how?: Omit<PlanEntry, 'point'>): Promise<void> {
    const { session } = this;
    const before = session.view.point;
    const facts = session.run?.points.find(({ name }) => name === point);
    const added = { point, ...(how ?? (facts && entryOf(facts))) };
    const outcome = await this.set([...(session.plan?.entries ?? []), added], point);
    const entry = outcome?.plan.entries.at(-1);
    if (outcome === null || entry === undefined) return;
    const name = watchedEntries(session.run, outcome.plan).at(-1)?.name;
    if (name !== undefined) session.choosePoint(name);
    session.toasts.say({
      key: kToast,
      text: `${point} is traced from step ${outcome.step} on`,
      tone: 'good',
      seconds: kSeconds,
      action: { text: 'Undo', run: () => void this.takeOut(entry, before) },
    });
  }

  /** Removes the entry from the current plan, and shows the point that was shown before. */
  private async takeOut(added: PlanEntry, before: string): Promise<void> {
    const { session } = this;
    const key = keyOfEntry(added);
    const entries = [...(session.plan?.entries ?? [])];
    const index = entries.findLastIndex((entry) => keyOfEntry(entry) === key);
    const { point } = added;
    if (index >= 0 && (await this.set(entries.toSpliced(index, 1), point)) === null) return;
    session.choosePoint(before);
  }

  private async set(entries: readonly PlanEntry[], point: string): Promise<PlanOutcome | null> {
    const outcome = await this.session.control.setPlan({ entries });
    if (outcome.ok) return outcome.value;
    const { message, remedy } = outcome.error;
    const why = remedy === undefined || remedy === null ? message : `${message}; ${remedy}`;
    this.session.toasts.say({
      key: kToast,
      text: `${point}: ${why}`,
      tone: 'bad',
      seconds: kSeconds,
    });
    return null;
  }
}

// The interval of derived values in steps: they are computed only for the page, which costs time.
const kSlow = 10;

/** The entry that a feature needs, or an entry with the trainer's defaults. */
function entryOf(facts: PointFacts): Omit<PlanEntry, 'point'> {
  const told = features().map((feature) => feature.traceOf?.(facts));
  const plain = facts.formula === undefined ? {} : { every: kSlow };
  return told.find((entry) => entry !== undefined) ?? plain;
}

export const tracingOf = stateOf((session) => new Tracing(session));

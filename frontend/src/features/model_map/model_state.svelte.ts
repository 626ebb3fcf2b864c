import type { Follower } from '../../core/registry/feature';
import { stateOf } from '../../core/registry/state_of';
import { queryOf } from '../../core/session/queries';
import type { Session } from '../../core/session/session';
import type { WatchedEntry } from '../../core/session/watched';
import type { View, ViewFrame, ViewQuery } from '../../core/store/frames';
import type { Slot } from '../../core/worker/link_messages';
import type { Program } from '../../protocol/interventions';
import type { Notification, RunFacts } from '../../protocol/messages';
import { entryOfSizes } from './blocks';

/** The query of the layers' statistics. Without statistics: the query of the shown entry, for its steps. */
export function layersQuery(session: Session): ViewQuery | null {
  const entry = entryOfSizes(session.watched, 'layer') ?? session.point;
  return entry === null ? null : sizesQuery(session, entry, session.layer);
}

function sizesQuery(session: Session, entry: WatchedEntry, layer: number): ViewQuery {
  const { view, plan, until } = session;
  return queryOf(
    entry,
    { ...view, layout: 'one', row: 0, pin: null },
    {
      ...{ plan: plan?.number ?? 0, phase: 'train', layer, until },
      ...{ step: view.step, every: session.everyOf(entry, 'train'), run: '' },
    },
  );
}

const kEnds = [
  ['before', 'embedding'],
  ['behind', 'head'],
] as const;
type End = (typeof kEnds)[number][1];

/** The data of the map besides the main view: programs in force, and statistics of embedding and head. */
class ModelState implements Follower {
  programs = $state.raw<readonly Program[]>([]);
  ends = $state.raw<Readonly<Partial<Record<End, ViewFrame>>>>({});
  private readonly sent: Partial<Record<End, string>> = {};

  constructor(private readonly session: Session) {}

  onRun({ interventions }: RunFacts): void {
    this.programs = interventions ?? [];
  }

  onNotification({ event, params }: Notification): void {
    if (event === 'interventions') this.programs = params.programs;
  }

  sendQuery(): void {
    for (const [slot, part] of kEnds) {
      const query = this.endQuery(part);
      const text = JSON.stringify(query);
      if (text === (this.sent[part] ?? 'null')) continue;
      this.sent[part] = text;
      if (query === null) this.ends = { ...this.ends, [part]: undefined };
      this.session.link.query(slot, query);
    }
  }

  onView(slot: Slot, view: View): void {
    const part = kEnds.find(([each]) => each === slot)?.[1];
    if (part === undefined || this.endQuery(part) === null) return;
    this.ends = { ...this.ends, [part]: 'frame' in view ? view.frame : undefined };
  }

  private endQuery(part: End): ViewQuery | null {
    const entry =
      this.session.view.tab === 'model' ? entryOfSizes(this.session.watched, part) : null;
    return entry === null ? null : sizesQuery(this.session, entry, 0);
  }
}

export const modelStateOf = stateOf((session) => new ModelState(session));

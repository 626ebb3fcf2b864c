import { formatNumber } from '../../base/format';
import { alarm as eventOf } from '../../core/store/alarms';
import { type Crossing, lastCrossing } from './crossing';
import type { View, ViewQuery } from '../../core/store/frames';
import type { ProjectionFrame } from './frame';
import { type AlarmTarget, formatAlarmTarget, parseAlarmTarget } from './alarm_target';
import type { Follower } from '../../core/registry/feature';
import { stateOf } from '../../core/registry/state_of';
import type { Slot } from '../../core/worker/link_messages';
import type { Session } from '../../core/session/session';
import { compressorFor } from '../../core/session/plan_book.svelte';
import { defaultView } from '../../core/session/url_state';
import { vectorName } from './vector_name';
import { queryOf } from '../../core/session/queries';
import { layerName, phaseOf } from '../../core/session/watched';

// The alarm does not look at these: a change of the page's own must not be one of its query.

/** A projection that is beyond its threshold, or was. */
export interface Alarm {
  readonly text: string;
  readonly crossing: Crossing;
  readonly newest: number | null;
  readonly target: AlarmTarget;
}

/**
 * The alarm of projections: it watches what was last shown beside its threshold, whatever else the
 * page shows by now.
 */
export class ProjectionAlarm implements Follower {
  private frame = $state.raw<ProjectionFrame | null>(null);
  private readonly target = $derived.by(() => parseAlarmTarget(this.session.view.alarmTarget));
  private readonly entry = $derived.by(() =>
    this.session.watched.find(
      ({ name, form }) => name === this.target?.entry && form === 'projection',
    ),
  );
  /** The last crossing of the threshold; null: there was none. */
  readonly last = $derived.by(() => this.lastAlarm());
  /** The projection is beyond its threshold now. */
  readonly ringing = $derived.by(() => (this.last?.crossing.until === null ? this.last : null));
  /** The last crossing as an event of the run. */
  readonly event = $derived.by(() =>
    this.last === null ? null : eventOf(this.last.crossing.step, this.last.text),
  );
  /** What it rings for. */
  readonly warning = $derived.by(() => this.ringing?.text ?? null);
  private asked = 'null';
  private subject = 'null';

  constructor(private readonly session: Session) {}

  /** Takes what is shown now for its target, if it stands beside the threshold. */
  onShown(): void {
    const alarmTarget = this.shownTarget();
    if (this.session.view.alarmTarget !== alarmTarget) this.session.show({ alarmTarget });
  }

  /** Asks for what is to be watched now. */
  sendQuery(): void {
    const query = this.query();
    const text = JSON.stringify(query);
    if (text === this.asked) return;
    this.asked = text;
    const subject = subjectOf(query);
    if (subject !== this.subject) this.frame = null;
    this.subject = subject;
    this.session.link.query('alarm', query);
  }

  onView(slot: Slot, view: View): void {
    if (slot !== 'alarm') return;
    const { query } = 'frame' in view ? view.frame : view.empty;
    // A view that was on its way when something else was asked for.
    if (subjectOf(query) !== this.subject) return;
    this.frame = 'frame' in view && view.frame.kind === 'projection' ? view.frame : null;
  }

  private shownTarget(): string {
    const { view, frame, point, phase } = this.session;
    if (view.threshold === null) return '';
    const isShown = view.tab === 'tensors' && frame?.kind === 'projection';
    if (!isShown || point?.form !== 'projection' || frame.query.entry !== point.entry) {
      return view.alarmTarget;
    }
    const { layer, row } = frame.query;
    const { over } = view;
    return formatAlarmTarget({ entry: point.name, layer, row, vector: frame.vector, over, phase });
  }

  private query(): ViewQuery | null {
    const { session, target, entry } = this;
    if (target === undefined || entry === undefined) return null;
    const phase = phaseOf(entry.phases, target.phase);
    return queryOf(
      entry,
      { ...defaultView(), row: target.row, vector: target.vector },
      {
        plan: session.plan?.number ?? 0,
        tokenizer: session.tokenizer,
        phase,
        layer: target.layer,
        step: null,
        // A held view holds the page, not what is watched.
        until: session.replay?.step ?? null,
        every: session.everyOf(entry, phase),
        run: '',
      },
    );
  }

  private lastAlarm(): Alarm | null {
    const { frame, target, entry, session } = this;
    const { threshold } = session.view;
    if (frame === null || target === undefined || entry === undefined || threshold === null) {
      return null;
    }
    const { layer } = frame.query;
    const line = frame.history.lines[target.over][frame.layers.indexOf(layer)] ?? [];
    const crossing = lastCrossing(frame.history.steps, line, threshold);
    if (crossing === undefined) return null;
    const point = entry.facts.name;
    const vector = vectorName(frame, compressorFor(session, frame));
    const what = `${layerName(layer, point)} of ${point} on ${vector}`;
    const text = `${what} crossed ${formatNumber(threshold)} at step ${crossing.step}`;
    return { text, crossing, newest: line.findLast((value) => value !== null) ?? null, target };
  }
}

export const alarmOf = stateOf((session) => new ProjectionAlarm(session));

/** What a query watches: a replay that moves watches the same. */
function subjectOf(query: ViewQuery | null): string {
  return JSON.stringify(query && { ...query, until: null, every: 0 });
}

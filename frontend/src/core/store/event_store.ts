import { read } from '../../base/schema';
import {
  type AuditLine,
  type Notification,
  type RunFacts,
  stateSchema,
} from '../../protocol/messages';
import type { RunEvent } from './event';
import { joined, ReportReader } from './run_event';

/** Older events than these are forgotten. */
export const kMaxEvents = 5000;

type Begun = Pick<RunFacts, 'interventions' | 'plan'>;

/** An event and the kinds of report that told of it. */
interface Entry {
  event: RunEvent;
  readonly sources: Set<string>;
}

/**
 * The events of a run, told twice: by notifications as they happen, and by the hub's audit trail,
 * which knows who asked. Reports of one thing are one event; two equal ones of one kind are two.
 */
export class EventStore {
  private entries: Entry[] = [];
  private readonly byWhat = new Map<string, Entry[]>();
  private readonly seen = new Set<string>();
  private live = new ReportReader();
  private trail = new ReportReader();
  private isReplay = false;

  /** From the first to the last step; drops that follow each other are one. */
  get all(): readonly RunEvent[] {
    const events: RunEvent[] = [];
    for (const { event } of this.entries) {
      const last = events[events.length - 1];
      const both = last === undefined ? undefined : joined(last, event);
      if (both === undefined) events.push(event);
      else events[events.length - 1] = both;
    }
    return events;
  }

  clear(): void {
    this.entries = [];
    this.byWhat.clear();
    this.seen.clear();
    this.live = new ReportReader();
    this.trail = new ReportReader();
  }

  /** How a hello says that the run stands: only what changes from then on is an event. */
  greeted(state: unknown, control: unknown, run: Begun | null = null): void {
    this.isReplay = read(stateSchema, state)?.phase === 'replay';
    this.live = new ReportReader();
    this.live.begin(run?.interventions ?? [], run?.plan);
    const common = { step: 0, time: 0, who: '' };
    this.live.read({ ...common, kind: 'state', detail: state });
    this.live.read({ ...common, kind: 'control', detail: control });
  }

  /** A notification that came just now, at a step; true if it is an event. */
  add(notification: Notification, step: number, time: number): boolean {
    const { event: kind, params: detail } = notification;
    if (kind === 'run') {
      this.live.begin(notification.params.interventions ?? [], notification.params.plan);
    }
    if (kind === 'step' || kind === 'run') return false;
    const at = kind === 'state' ? notification.params.step : step;
    const event = this.live.read({ kind, step: at, time, who: '', detail });
    if (event === undefined) return false;
    this.insert(event, 'live');
    this.settle();
    return true;
  }

  /** Lines of the audit trail, oldest first; those that are known already are left out. */
  merge(lines: readonly AuditLine[]): void {
    for (const { id, time_ns, step, kind, who, detail } of lines) {
      // A hub that began a new history counts from 1 again.
      const key = `${id}/${time_ns}`;
      if (this.seen.has(key)) continue;
      this.seen.add(key);
      const event = this.trail.read({ kind, step, time: time_ns / 1e6, who, detail });
      if (event !== undefined) this.insert(event, kind);
    }
    this.settle();
  }

  private insert(event: RunEvent, source: string): void {
    const alike = this.byWhat.get(event.what) ?? [];
    // A replay tells its steps again at each pass.
    const isAgain = this.isReplay && source === 'live';
    const known = alike.findLast(
      (entry) => isNear(entry.event, event) && (isAgain || !entry.sources.has(source)),
    );
    if (known !== undefined) {
      known.sources.add(source);
      known.event = combined(known.event, event, source);
      return;
    }
    const entry = { event, sources: new Set([source]) };
    this.entries.push(entry);
    this.byWhat.set(event.what, [...alike, entry]);
  }

  private settle(): void {
    this.entries.sort(byStep);
    if (this.entries.length <= kMaxEvents) return;
    this.entries = this.entries.slice(-kMaxEvents);
    this.byWhat.clear();
    for (const entry of this.entries) {
      const { what } = entry.event;
      this.byWhat.set(what, [...(this.byWhat.get(what) ?? []), entry]);
    }
  }
}

function isNear(known: RunEvent, event: RunEvent): boolean {
  return Math.abs(known.step - event.step) <= 1;
}

/** The trail counts more than the notification, and who asked more than who did not. */
function combined(known: RunEvent, event: RunEvent, source: string): RunEvent {
  const better = source === 'live' || (known.who !== '' && event.who === '') ? known : event;
  return { ...better, who: known.who === '' ? event.who : known.who };
}

function byStep({ event: a }: Entry, { event: b }: Entry): number {
  return a.step - b.step || a.time - b.time;
}

import { read } from '../../base/schema';
import {
  type AuditLine,
  type Notification,
  type RunFacts,
  stateSchema,
} from '../../protocol/messages';
import type { RunEvent } from './event';
import { joined, ReportReader } from './run_event';

/** The most events that are kept; the oldest are dropped first. */
export const kMaxEvents = 5000;

type Begun = Pick<RunFacts, 'interventions' | 'plan'>;

/** An event and the kinds of its reports. */
interface Entry {
  event: RunEvent;
  readonly sources: Set<string>;
}

/**
 * The events of a run. Each is reported twice: by a notification when it happens, and by the hub's
 * audit trail, which names the person. Two reports of different kinds make one event; two equal
 * reports of one kind make two events.
 */
export class EventStore {
  private entries: Entry[] = [];
  private readonly byWhat = new Map<string, Entry[]>();
  private readonly seen = new Set<string>();
  private live = new ReportReader();
  private trail = new ReportReader();
  private isReplay = false;

  /** All events by step. Consecutive drops are one event. */
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

  /** Takes the state of the run from a hello. Only later changes are events. */
  greeted(state: unknown, control: unknown, run: Begun | null = null): void {
    this.isReplay = read(stateSchema, state)?.phase === 'replay';
    this.live = new ReportReader();
    this.live.begin(run?.interventions ?? [], run?.plan);
    const common = { step: 0, time: 0, who: '' };
    this.live.read({ ...common, kind: 'state', detail: state });
    this.live.read({ ...common, kind: 'control', detail: control });
  }

  /** Adds a notification that has just arrived, at a step; true if it is an event. */
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

  /** Adds lines of the audit trail, oldest first. Known lines are left out. */
  merge(lines: readonly AuditLine[]): void {
    for (const { id, time_ns, step, kind, who, detail } of lines) {
      // A hub with a new history counts from 1 again, so the id alone is not unique.
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
    // A replay sends the same events again each time it passes their steps.
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

/** Prefers the report of the trail to the notification, and a report with a person to one without. */
function combined(known: RunEvent, event: RunEvent, source: string): RunEvent {
  const better = source === 'live' || (known.who !== '' && event.who === '') ? known : event;
  return { ...better, who: known.who === '' ? event.who : known.who };
}

function byStep({ event: a }: Entry, { event: b }: Entry): number {
  return a.step - b.step || a.time - b.time;
}

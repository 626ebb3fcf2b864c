import type { Disposable } from '../base/disposable';
import { formatNumber } from '../base/format';
import { type Crossing, lastCrossing } from '../store/crossing';
import type { ProjectionFrame } from '../store/frames';
import type { SlotView } from '../worker/worker_link';
import type { App } from './app.svelte';
import { type Guard, parseGuard } from './guard';
import { queryOf } from './queries';
import { closest, layerName, phaseOf, type WatchedEntry } from './watched';

/** A projection that is beyond its threshold, or was. */
export interface Alarm {
  readonly text: string;
  readonly crossing: Crossing;
  readonly newest: number | null;
  readonly guard: Guard;
}

/** Follows the projection that the threshold is for, whatever else the page shows. */
export class AlarmWatch implements Disposable {
  private frame = $state.raw<ProjectionFrame | null>(null);
  private readonly guard = $derived.by(() => parseGuard(this.app.view.guard));
  private readonly entry = $derived.by(() =>
    this.app.watched.find(({ name, form }) => name === this.guard?.entry && form === 'projection'),
  );
  readonly last = $derived.by(() => this.lastAlarm());

  private readonly listening: Disposable;
  private asked = 'null';

  constructor(private readonly app: App) {
    this.listening = app.link.onView((view) => this.onView(view));
  }

  dispose(): void {
    this.listening.dispose();
    this.app.link.query('alarm', null);
  }

  /** Asks for what is to be watched now; reads what that depends on. */
  ask(): void {
    const { guard, entry } = this;
    const query = guard === undefined || entry === undefined ? null : this.queryFor(guard, entry);
    const text = JSON.stringify(query);
    if (text === this.asked) return;
    this.asked = text;
    this.frame = null;
    this.app.link.query('alarm', query);
  }

  private queryFor(guard: Guard, entry: WatchedEntry): ReturnType<typeof queryOf> {
    const { app } = this;
    const phase = phaseOf(entry.phases, guard.phase);
    return queryOf(
      entry,
      { ...app.view, row: guard.row, vector: guard.vector },
      {
        plan: app.plan?.number ?? 0,
        tokenizer: app.tokenizer,
        phase,
        layer: closest(entry.layers, guard.layer),
        step: null,
        until: app.until,
        every: app.everyOf(entry, phase),
        run: '',
      },
    );
  }

  private onView({ slot, view }: SlotView): void {
    if (slot !== 'alarm') return;
    const frame = 'frame' in view && view.frame.kind === 'projection' ? view.frame : null;
    // A view that was on its way when something else was asked for.
    if (frame !== null && JSON.stringify(frame.query) !== this.asked) return;
    this.frame = frame;
  }

  private lastAlarm(): Alarm | null {
    const { frame, guard, entry, app } = this;
    const { threshold } = app.view;
    if (frame === null || guard === undefined || entry === undefined || threshold === null) {
      return null;
    }
    const line = frame.history.lines[guard.over][frame.layers.indexOf(frame.layer)] ?? [];
    const crossing = lastCrossing(frame.history.steps, line, threshold);
    if (crossing === undefined) return null;
    const point = entry.facts.name;
    const vector = entry.compressor.vectors?.[frame.vector] ?? `vector ${frame.vector}`;
    const what = `${layerName(frame.layer, point)} of ${point} on ${vector}`;
    const text = `${what} crossed ${formatNumber(threshold)} at step ${crossing.step}`;
    return { text, crossing, newest: line.findLast((value) => value !== null) ?? null, guard };
  }
}

import { formatNumber } from '../base/format';
import { alarm as eventOf } from '../store/alarms';
import { type Crossing, lastCrossing } from '../store/crossing';
import type { ProjectionFrame, View, ViewQuery } from '../store/frames';
import { type AlarmTarget, formatAlarmTarget, parseAlarmTarget } from './alarm_target';
import type { App } from './app.svelte';
import { queryOf } from './queries';
import { closest, layerName, phaseOf } from './watched';

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
export class ProjectionAlarm {
  private frame = $state.raw<ProjectionFrame | null>(null);
  private readonly target = $derived.by(() => parseAlarmTarget(this.app.view.alarmTarget));
  private readonly entry = $derived.by(() =>
    this.app.watched.find(({ name, form }) => name === this.target?.entry && form === 'projection'),
  );
  /** The last crossing of the threshold; null: there was none. */
  readonly last = $derived.by(() => this.lastAlarm());
  /** The projection is beyond its threshold now. */
  readonly ringing = $derived.by(() => (this.last?.crossing.until === null ? this.last : null));
  /** The last crossing as an event of the run. */
  readonly event = $derived.by(() =>
    this.last === null ? null : eventOf(this.last.crossing.step, this.last.text),
  );
  private asked = 'null';

  constructor(private readonly app: App) {}

  /** Takes what is shown now for its target, if it stands beside the threshold. */
  aim(): void {
    const alarmTarget = this.shownTarget();
    if (this.app.view.alarmTarget !== alarmTarget) this.app.show({ alarmTarget });
  }

  /** Asks for what is to be watched now. */
  sendQuery(): void {
    const query = this.query();
    const text = JSON.stringify(query);
    if (text === this.asked) return;
    this.asked = text;
    this.frame = null;
    this.app.link.query('alarm', query);
  }

  onView(view: View): void {
    const frame = 'frame' in view && view.frame.kind === 'projection' ? view.frame : null;
    // A view that was on its way when something else was asked for.
    if (frame !== null && JSON.stringify(frame.query) !== this.asked) return;
    this.frame = frame;
  }

  private shownTarget(): string {
    const { view, frame, point, phase } = this.app;
    if (view.threshold === null) return '';
    const isShown = view.tab === 'tensors' && frame?.kind === 'projection';
    if (!isShown || point?.form !== 'projection' || frame.query.entry !== point.entry) {
      return view.alarmTarget;
    }
    const { layer, vector, query } = frame;
    const { over } = view;
    return formatAlarmTarget({ entry: point.name, layer, row: query.row, vector, over, phase });
  }

  private query(): ViewQuery | null {
    const { app, target, entry } = this;
    if (target === undefined || entry === undefined) return null;
    const phase = phaseOf(entry.phases, target.phase);
    return queryOf(
      entry,
      { ...app.view, row: target.row, vector: target.vector },
      {
        plan: app.plan?.number ?? 0,
        tokenizer: app.tokenizer,
        phase,
        layer: closest(entry.layers, target.layer),
        step: null,
        until: app.until,
        every: app.everyOf(entry, phase),
        run: '',
      },
    );
  }

  private lastAlarm(): Alarm | null {
    const { frame, target, entry, app } = this;
    const { threshold } = app.view;
    if (frame === null || target === undefined || entry === undefined || threshold === null) {
      return null;
    }
    const line = frame.history.lines[target.over][frame.layers.indexOf(frame.layer)] ?? [];
    const crossing = lastCrossing(frame.history.steps, line, threshold);
    if (crossing === undefined) return null;
    const point = entry.facts.name;
    const vector = entry.compressor.vectors?.[frame.vector] ?? `vector ${frame.vector}`;
    const what = `${layerName(frame.layer, point)} of ${point} on ${vector}`;
    const text = `${what} crossed ${formatNumber(threshold)} at step ${crossing.step}`;
    return { text, crossing, newest: line.findLast((value) => value !== null) ?? null, target };
  }
}

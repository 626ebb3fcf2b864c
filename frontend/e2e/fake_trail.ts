/** One line of `/history/events`. */
export interface TrailLine {
  readonly id: number;
  readonly time_ns: number;
  readonly step: number;
  readonly kind: string;
  readonly session: string;
  readonly who: string;
  readonly detail: unknown;
}

// What the hub writes down of its own notifications.
const kKept = ['state', 'plan', 'interventions', 'log', 'dropped'];

/** The audit trail of the fake hub. */
export class FakeTrail {
  readonly lines: TrailLine[] = [];

  add(kind: string, step: number, detail: unknown, session = '', who = ''): void {
    const id = this.lines.length + 1;
    this.lines.push({ id, time_ns: Date.now() * 1e6, step, kind, session, who, detail });
  }

  /** Keeps a notification, if it is one of those that are kept. */
  note(event: string, params: unknown, step: number): void {
    if (!kKept.includes(event)) return;
    const about = params as { readonly where?: string; readonly step?: number };
    if (event !== 'dropped' || about.where === 'trainer') {
      this.add(event, about.step ?? step, params);
    }
  }
}

import type { Mark } from './marks';
import type { EventKind, RunEvent } from '../../core/store/event';

/** The colour of each kind of event, and its name in the list. */
export const kEventStyles: Readonly<Record<EventKind, { color: string; name: string }>> = {
  plan: { color: '--mark-plan', name: 'plan' },
  intervention: { color: '--mark-intervention', name: 'intervention' },
  control: { color: '--mark-control', name: 'control' },
  run: { color: '--mark-run', name: 'run' },
  drop: { color: '--mark-drop', name: 'drops' },
  alarm: { color: '--mark-alarm', name: 'alarm' },
  log: { color: '--mark-log', name: 'log' },
};

/** "Plan 2: MLP1 (Ada)" */
export function eventText({ text, who }: RunEvent): string {
  return who === '' ? text : `${text} (${who})`;
}

/** The events as marks on a time axis. */
export function marksOf(events: readonly RunEvent[]): readonly Mark[] {
  return events.map((event) => ({
    step: event.step,
    color: kEventStyles[event.kind].color,
    text: eventText(event),
  }));
}

import { object, read } from '../../base/schema';
import type { Follower } from '../../core/registry/feature';
import { stateOf } from '../../core/registry/state_of';
import type { Session } from '../../core/session/session';
import { readStored, writeStored } from '../../core/session/preferences';
import { alarmAnswerSchema, type AlarmFacts, alarmsSchema } from '../../protocol/alarms';
import type { HubError, Notification } from '../../protocol/messages';
import { type AlarmCurve, type AlarmDraft, draftOf, paramsOf } from './alarm_draft';

const kNotifyKey = 'tensor-tracer.notify';

/** The alarms of the run, which the hub keeps, and the alarm that the user edits. */
export class AlarmBook implements Follower {
  all = $state.raw<readonly AlarmFacts[]>([]);
  readonly firing = $derived(this.all.filter(({ state }) => state === 'firing'));
  /** The dialog is open while there is a draft. */
  draft = $state.raw<AlarmDraft | null>(null);
  error = $state.raw<HubError | null>(null);
  /** Whether this browser shows a notification when an alarm fires. */
  notifies = $state(readStored(kNotifyKey) === 'yes');

  /** The message of the first firing alarm, for the page's title and the log. */
  readonly warning = $derived(this.firing[0]?.last?.message ?? null);

  constructor(private readonly session: Session) {}

  /** Requests all alarms. The hub's answer arrives before its later notifications. */
  onRun(): void {
    void this.session.link.request('alarms.list', undefined).then((answer) => {
      if (answer.ok) this.all = read(alarmsSchema, answer.result)?.alarms ?? this.all;
    });
  }

  onNotification({ event, params }: Notification): void {
    if (event === 'alarms') this.all = params.alarms;
    if (event !== 'alarm') return;
    const { alarm, change, message } = params;
    const others = this.all.filter(({ name }) => name !== alarm.name);
    const now = change === 'removed' ? others : [...others, alarm];
    this.all = now.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    if (change === 'fired') this.notify(alarm.name, message ?? '');
  }

  open(draft: AlarmDraft = draftOf({ scalar: 'loss' })): void {
    this.error = null;
    this.draft = draft;
  }

  openFor(curve: AlarmCurve): void {
    this.open(draftOf(curve));
  }

  close(): void {
    this.draft = null;
  }

  async set(): Promise<void> {
    if (this.draft === null) return;
    const outcome = await this.session.control.carryOut(
      'alarms.set',
      paramsOf(this.draft),
      alarmAnswerSchema,
    );
    this.error = outcome.ok ? null : outcome.error;
    if (outcome.ok && this.draft !== null) this.draft = draftOf(this.draft.curve);
  }

  async remove(name: string): Promise<void> {
    const outcome = await this.session.control.carryOut('alarms.remove', { name }, object({}));
    this.error = outcome.ok ? null : outcome.error;
  }

  /** Asks the browser for its permission; without it there are no notifications. */
  async chooseNotifications(wanted: boolean): Promise<void> {
    const asked = wanted && 'Notification' in window;
    this.notifies = asked && (await Notification.requestPermission()) === 'granted';
    writeStored(kNotifyKey, this.notifies ? 'yes' : 'no');
  }

  private notify(name: string, body: string): void {
    if (!this.notifies || !('Notification' in window)) return;
    if (Notification.permission !== 'granted') return;
    new Notification(`⚠ ${this.session.run?.name ?? 'Tensor Tracer'}`, {
      body,
      tag: `tensor-tracer-${name}`,
    });
  }
}

export const alarmBookOf = stateOf((session) => new AlarmBook(session));

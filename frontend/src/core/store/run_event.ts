import { formatPlural } from '../../base/format';
import { boolean, object, optional, read, string, withDefault } from '../../base/schema';
import {
  checkpointSchema,
  controlSchema,
  droppedSchema,
  logSchema,
  type Plan,
  planEventSchema,
  planSchema,
  type RunState,
  stateSchema,
} from '../../protocol/messages';
import { alarmEventSchema } from '../../protocol/alarms';
import type { Program } from '../../protocol/interventions';
import type { EventKind, Gist, RunEvent } from './event';
import { askedGist, InterventionReader, isSameDial } from './intervention_events';
import { planChange } from './plan_change';

/** A notification or a line of the audit trail, in one form. */
export interface Report {
  readonly kind: string;
  readonly step: number;
  readonly time: number;
  readonly who: string;
  readonly detail: unknown;
}

const refusedSchema = object({ method: string, code: withDefault(string, ''), message: string });
const spikeSchema = object({ message: string });
const claimedSchema = object({ take_over: withDefault(boolean, false) });
const begunSchema = object({ plan: planSchema });
const appliedSchema = object({ result: optional(planEventSchema) });

/** Reads the reports of one source in order. The meaning of a state depends on the state before. */
export class ReportReader {
  private phase: RunState['phase'] | undefined;
  private holder: string | undefined;
  private readonly interventions = new InterventionReader();
  private readonly plans = new Map<number, Plan>();

  /** Sets the programs and the plan that are in force before the first report. */
  begin(programs: readonly Program[], plan: Plan | null | undefined): void {
    this.interventions.begin(programs);
    this.learn(plan);
  }

  private learn(plan: Plan | null | undefined): void {
    if (plan !== null && plan !== undefined) this.plans.set(plan.number, plan);
  }

  /** The event of a report; undefined if the report is not shown as an event. */
  read(report: Report): RunEvent | undefined {
    const { step, time, who } = report;
    const gist = this.gistOf(report);
    if (gist === undefined) return undefined;
    const event = { step, time, who, records: 0, messages: 0, ...gist };
    return { ...event, lastStep: event.step };
  }

  private gistOf({ kind, who, detail }: Report): Gist | undefined {
    switch (kind) {
      case 'state':
        return this.ofState(detail);
      case 'plan':
        return this.ofPlan(read(planEventSchema, detail));
      case 'plan.set':
        return this.ofPlan(read(appliedSchema, detail)?.result);
      case 'run':
        this.learn(read(begunSchema, detail)?.plan);
        return undefined;
      case 'interventions':
        return this.interventions.changed(detail, read);
      case 'control': {
        const control = read(controlSchema, detail);
        return control && this.ofControl(control.holder?.name ?? '', false);
      }
      case 'control.claim':
        return this.ofControl(who, read(claimedSchema, detail)?.take_over ?? false);
      case 'control.release':
      case 'control.free':
        return this.ofControl('', false);
      case 'alarm':
        return alarmGist(detail);
      case 'checkpoint':
        return checkpointGist(detail);
      case 'spike': {
        const spike = read(spikeSchema, detail);
        return spike && logGist({ level: 'info', message: spike.message });
      }
      case 'dropped':
        return dropGist(detail);
      case 'log':
        return logGist(detail);
      case 'refused':
        return refusedGist(detail);
    }
    if (kIntervenes.test(kind)) return askedGist(kind, detail, read) ?? plain('control', kind);
    return kAsked.get(kind) ?? (kSilent.test(kind) ? undefined : plain('control', kind));
  }

  private ofPlan(
    event: { readonly plan: Plan; readonly step: number } | undefined,
  ): Gist | undefined {
    if (event === undefined) return undefined;
    const { plan, step } = event;
    const before = this.plans.get(plan.number - 1);
    this.learn(plan);
    const change = before === undefined ? entriesText(plan) : planChange(before, plan);
    const text = `Plan ${plan.number}: ${change === '' ? 'the same entries' : change}`;
    return { ...plain('plan', text), what: `plan/${plan.number}`, step };
  }

  private ofState(detail: unknown): Gist | undefined {
    const state = read(stateSchema, detail);
    const before = this.phase;
    if (state === undefined || state.phase === before) return undefined;
    this.phase = state.phase;
    switch (state.phase) {
      case 'paused':
        return plain('run', 'Paused');
      case 'finished':
        return plain('run', 'Run finished');
      case 'stopped':
        return plain('run', 'Run stopped');
      case 'lost':
        return { ...plain('run', 'Trainer lost'), kind: 'alarm', tone: 'bad' };
      case 'training':
        return kBegun.get(before);
      default:
        return undefined;
    }
  }

  private ofControl(name: string, takenOver: boolean): Gist | undefined {
    if (name === this.holder) return undefined;
    this.holder = name;
    const what = `control/${name}`;
    if (name === '') return { ...plain('control', 'Control is free'), what, who: '' };
    const text = `${name} ${takenOver ? 'took over' : 'took'} control`;
    return { ...plain('control', text), what, who: '' };
  }
}

/** The event of the phase `training`, by the phase before. */
const kBegun: ReadonlyMap<RunState['phase'] | undefined, Gist> = new Map([
  [undefined, plain('run', 'Training began')],
  ['starting', plain('run', 'Training began')],
  ['waiting', plain('run', 'Training began')],
  ['paused', plain('run', 'Continued')],
  ['lost', plain('run', 'Trainer is back')],
]);

/** The events of requests in the audit trail. A `state` reports some of them too, without the person. */
const kAsked: ReadonlyMap<string, Gist> = new Map([
  ['control.pause', plain('run', 'Paused')],
  ['control.continue', plain('run', 'Continued')],
  ['control.step', { ...plain('run', 'Stepped'), what: plain('run', 'Paused').what }],
  ['control.stop', plain('run', 'Stop requested')],
  ['checkpoint.save', plain('run', 'Checkpoint requested')],
  ['run.keep', plain('run', 'All traced data is kept from now on')],
  ['prompt.run', plain('control', 'A typed prompt ran')],
  ['prompt.keep', plain('control', 'A prompt was kept')],
  ['prompt.remove', plain('control', 'A prompt was removed')],
]);

// Reports that are not events: steps are too frequent, and moves of a replay do not change the run.
const kSilent =
  /^(step|parts|alarms|prompts|recording|replay\..*|applied|saved|response|projections|intervention\.(check|preview))$/;
const kCheckpoint = 'checkpoint/';
const kIntervenes = /^intervention\.(apply|set|remove|revert)$/;

function plain(kind: EventKind, text: string): Gist {
  return { kind, tone: 'plain', text, what: `${kind}/${text}` };
}

/** The step of the newest checkpoint among these events. */
export function lastCheckpoint(events: readonly RunEvent[]): number | undefined {
  return events.findLast(({ what }) => what.startsWith(kCheckpoint))?.step;
}

function entriesText({ entries }: Plan): string {
  const points = entries.filter(({ enabled }) => enabled !== false).map(({ point }) => point);
  return points.length > 0 ? points.join(', ') : 'nothing is traced';
}

function alarmGist(detail: unknown): Gist | undefined {
  const event = read(alarmEventSchema, detail);
  if (event === undefined) return undefined;
  const { change, step, message, alarm } = event;
  const text = message ?? `alarm ${alarm.name} ${change}`;
  const tone = change === 'fired' ? 'bad' : 'plain';
  // A person sets or removes an alarm, so this event is not an alarm.
  const kind = change === 'set' || change === 'removed' ? 'control' : 'alarm';
  const what = `alarm/${change}/${step ?? 0}/${alarm.name}`;
  return { kind, tone, text, what, ...(step === undefined ? {} : { step }) };
}

function checkpointGist(detail: unknown): Gist | undefined {
  const checkpoint = read(checkpointSchema, detail);
  if (checkpoint === undefined) return undefined;
  // Training has gone on during the save, so the report is of a later step.
  const { step } = checkpoint;
  const text = `Checkpoint of step ${step} saved`;
  return { ...plain('run', text), what: `${kCheckpoint}${step}`, step };
}

function dropGist(detail: unknown): Gist | undefined {
  const dropped = read(droppedSchema, detail);
  if (dropped === undefined) return undefined;
  const { records, events: messages = 0 } = dropped;
  const where = dropped.where in kDropPlaces ? dropped.where : 'viewer';
  const text = dropText(where, { records, messages });
  const what = `drop/${where}/${records}/${messages}`;
  return { kind: 'drop', tone: 'warn', text, what, records, messages };
}

type Dropped = Pick<RunEvent, 'records' | 'messages'>;

const kDropPlaces: Readonly<Record<string, string>> = {
  viewer: 'on the way to this page',
  trainer: "by the trainer's queue",
  recording: 'by the recording',
};

function dropText(where: string, { records, messages }: Dropped): string {
  const name = where === 'viewer' ? 'program message' : 'message';
  const parts = [
    ...(records > 0 ? [formatPlural(records, 'record')] : []),
    ...(messages > 0 ? [formatPlural(messages, name)] : []),
  ];
  return `${parts.join(' and ')} dropped ${kDropPlaces[where] ?? ''}`;
}

function logGist(detail: unknown): Gist | undefined {
  const log = read(logSchema, detail);
  if (log === undefined) return undefined;
  const { level, message: text } = log;
  const what = `log/${text}`;
  if (level === 'error') return { kind: 'alarm', tone: 'bad', text, what };
  if (level === 'warning') return { kind: 'alarm', tone: 'warn', text, what };
  return { kind: 'log', tone: 'plain', text, what };
}

function refusedGist(detail: unknown): Gist | undefined {
  const refused = read(refusedSchema, detail);
  // While a slider moves, each value replaces the one before. This is not an error.
  if (refused === undefined || refused.code === 'superseded') return undefined;
  const text = `${refused.method} refused: ${refused.message}`;
  return { kind: 'log', tone: 'warn', text, what: `refused/${text}` };
}

/**
 * Two consecutive events as one: drops at the same place, or values of one slider. Undefined if they
 * are not joined.
 */
export function joined(first: RunEvent, second: RunEvent): RunEvent | undefined {
  if (first.who === second.who && isSameDial(first.what, second.what)) {
    return { ...second, step: first.step, lastStep: second.lastStep };
  }
  if (first.kind !== 'drop' || second.kind !== 'drop') return undefined;
  const where = first.what.split('/')[1];
  if (where !== second.what.split('/')[1]) return undefined;
  const sums = {
    records: first.records + second.records,
    messages: first.messages + second.messages,
  };
  return { ...first, ...sums, lastStep: second.lastStep, text: dropText(where, sums) };
}

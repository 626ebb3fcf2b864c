export type EventKind = 'plan' | 'intervention' | 'control' | 'run' | 'drop' | 'alarm' | 'log';

/** An event of the run at a step. */
export interface RunEvent {
  readonly kind: EventKind;
  readonly tone: 'plain' | 'warn' | 'bad';
  readonly step: number;
  /** The last step, if several events are shown as one. */
  readonly lastStep: number;
  /** Milliseconds since 1970. */
  readonly time: number;
  readonly text: string;
  /** The person who requested it; '' if nobody did, or the person is not known. */
  readonly who: string;
  /** The same in all reports of one event, for example a notification and a line of the audit trail. */
  readonly what: string;
  /** The number of dropped records, and of dropped messages. */
  readonly records: number;
  readonly messages: number;
}

/** The content of a report; step and time are optional. */
export type Gist = Pick<RunEvent, 'kind' | 'tone' | 'text' | 'what'> & Partial<RunEvent>;

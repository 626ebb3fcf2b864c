export type EventKind = 'plan' | 'intervention' | 'control' | 'run' | 'drop' | 'alarm' | 'log';

/** Something that happened in the run, at a step. */
export interface RunEvent {
  readonly kind: EventKind;
  readonly tone: 'plain' | 'warn' | 'bad';
  readonly step: number;
  /** The last step of several that are told as one. */
  readonly lastStep: number;
  /** Milliseconds since 1970. */
  readonly time: number;
  readonly text: string;
  /** Who asked for it; '' where nobody did, or nobody knows. */
  readonly who: string;
  /** Two reports of one thing, a notification and a line of the audit trail say, agree in this. */
  readonly what: string;
  /** Records and messages that were dropped. */
  readonly records: number;
  readonly messages: number;
}

/** What a report is about, without step and time. */
export type Gist = Pick<RunEvent, 'kind' | 'tone' | 'text' | 'what'> & Partial<RunEvent>;

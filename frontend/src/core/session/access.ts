import type { Session } from './session';

/** Whether the page may change the run, whether it may claim the lease, and a text about it. */
export interface Access {
  readonly readOnly: boolean;
  readonly claimable: boolean;
  readonly text: string;
}

/** `free` is the text if nobody holds control; `replayed` is the text for a replay. */
export function accessOf(
  session: Pick<Session, 'connection' | 'control' | 'replay' | 'run'>,
  free: string,
  replayed: string,
): Access {
  const { connection, control, replay, run } = session;
  const open = connection.kind === 'open';
  const { viewOnly, others, mine, holder } = control;
  return {
    readOnly: !open || others || viewOnly || replay !== null || run === null,
    claimable: open && !viewOnly && !mine && run !== null && replay === null,
    text: textOf(),
  };

  function textOf(): string {
    if (replay !== null) return replayed;
    if (!open) return 'Read-only: the hub is not connected.';
    if (viewOnly) return 'Read-only: this token allows only viewing.';
    if (others) return `Read-only: ${holder?.name ?? ''} holds control.`;
    if (run === null) return 'Read-only: no trainer has connected yet.';
    return mine ? 'You hold control.' : free;
  }
}

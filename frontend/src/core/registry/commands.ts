import type { Session } from '../session/session';

export const kGroups = ['Run', 'Go to', 'Step', 'Show', 'File', 'Help'] as const;

/** An action of the page, in the command palette, and by a key if it has one. */
export interface Command {
  readonly id: string;
  readonly group: (typeof kGroups)[number];
  readonly text: string;
  /** The keys as the help sheet shows them; `match` has their names in events. */
  readonly keys?: readonly string[];
  readonly match?: readonly string[];
  /** Shown in grey: the object of the command does not exist yet. */
  readonly isMuted?: boolean;
  /** The reason why the command is not available now. */
  readonly hindrance?: string;
  /**
   * The key works only for the controller, because a key is pressed by mistake more often than a
   * button.
   */
  readonly keyOfHolder?: boolean;
  readonly run: () => void;
}

/** A command that changes the view. */
export function showCommand(
  session: Pick<Session, 'show'>,
  id: string,
  text: string,
  to: Parameters<Session['show']>[0],
): Command {
  return { id, text, group: 'Show', run: () => session.show(to) };
}

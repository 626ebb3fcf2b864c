import type { Session } from '../session/session';

export const kGroups = ['Run', 'Go to', 'Step', 'Show', 'File', 'Help'] as const;

/** Something that the page can do: by the palette, and by a key if it has one. */
export interface Command {
  readonly id: string;
  readonly group: (typeof kGroups)[number];
  readonly text: string;
  /** Keys as the sheet of shortcuts shows them, and their names in events. */
  readonly keys?: readonly string[];
  readonly match?: readonly string[];
  /** In grey: about something that is not there yet. */
  readonly isMuted?: boolean;
  /** Said where it cannot be done now. */
  readonly hindrance?: string;
  /** Its key acts only for the holder of control: a key is pressed by mistake more often than a button. */
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

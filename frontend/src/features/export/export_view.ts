import { tabOf } from '../../core/registry/registry';
import type { Session } from '../../core/session/session';
import type { Format } from './formats';

/** Whether the current view shows numbers that a file can hold. */
export function hasNumbers(session: Session): boolean {
  return tabOf(session.view.tab)?.hasNumbers?.(session) ?? false;
}

/** Saves the current view to a file. The code that makes files is loaded at the first use. */
export async function exportView(session: Session, format: Format): Promise<void> {
  const { saveView } = await import('./exports');
  await saveView(session, format);
}

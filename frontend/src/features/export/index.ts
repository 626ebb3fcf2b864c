import type { Command } from '../../core/registry/commands';
import type { Feature } from '../../core/registry/feature';
import type { Session } from '../../core/session/session';
import ExportMenu from './export_menu.svelte';
import { exportView, hasNumbers } from './export_view';
import { kFormats } from './formats';

/** Saves a view as a picture, as tables or as arrays. */
export const kExport: Feature = { pageTools: [ExportMenu], commandsOf };

function commandsOf(session: Session): readonly Command[] {
  return kFormats.map(({ format, name, text }) => ({
    id: `export-${format}`,
    group: 'File' as const,
    text: `Export ${name}: ${text}`,
    hindrance: format === 'png' || hasNumbers(session) ? undefined : 'this view shows no numbers',
    run: () => void exportView(session, format),
  }));
}

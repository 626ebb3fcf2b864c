import type { Exported } from '../../core/registry/files';
import { tabOf, viewOf } from '../../core/registry/registry';
import type { Session } from '../../core/session/session';
import type { ViewFrame } from '../../core/store/frames';
import { exportedFrame, fileName, runFacts } from '../../ui/file_facts';
import { csvOf, npzOf } from './export_files';
import type { Format } from './formats';
import { pictureOf } from './picture';

/** The content of a file of the current view; without arrays, the view has no numbers. */
async function exportedOf(session: Session, format: Format): Promise<Exported> {
  const tab = tabOf(session.view.tab);
  const { frame } = session;
  const own = await tab?.files?.();
  if (own !== undefined) return own(session);
  if (tab?.hasNumbers === undefined || frame === null) {
    const { tab: id = '', name = id } = tab ?? {};
    return { name: fileName(session, id), title: name, facts: runFacts(session), arrays: [] };
  }
  if (format === 'png') return exportedFrame(session, frame, 'one');
  const shown = await exportedFrame(session, frame, 'all');
  const whole = await wholeOf(session, frame);
  if (whole === undefined) return shown;
  const all = (await viewOf(whole).files?.())?.arraysOf(whole) ?? [];
  const names = tab.arrayNames?.(frame) ?? null;
  return { ...shown, arrays: all.filter(({ name }) => names?.includes(name) ?? true) };
}

/** The shown frame with all its numbers; undefined if they are no longer kept. */
async function wholeOf(
  session: Session,
  { query, step, kind }: ViewFrame,
): Promise<ViewFrame | undefined> {
  const view = await session.link.whole({ ...query, step });
  const whole = 'frame' in view ? view.frame : undefined;
  return whole?.step === step && whole.kind === kind ? whole : undefined;
}

/** Saves the current view to a file of the browser's downloads. */
export async function saveView(session: Session, format: Format): Promise<void> {
  const exported = await exportedOf(session, format);
  const name = `${exported.name}.${format}`;
  const blob = await blobOf(exported, format);
  if (blob === null) {
    session.control.notice = `Not saved: the numbers of ${exported.title} are no longer kept`;
    return;
  }
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
  session.control.notice = `Saved ${name}`;
}

async function blobOf(exported: Exported, format: Format): Promise<Blob | null> {
  if (format === 'png') {
    const root = document.querySelector<HTMLElement>('main [data-export]');
    const whole = document.querySelector<HTMLElement>('main');
    const of = root ?? whole;
    return of === null ? null : pictureOf(of, [exported.title, subtitleOf(exported)]);
  }
  if (exported.arrays.length === 0) return null;
  if (format === 'npz') return new Blob([npzOf(exported)], { type: 'application/octet-stream' });
  return new Blob([...csvOf(exported)], { type: 'text/csv' });
}

function subtitleOf({ facts }: Exported): string {
  const { run, run_id, plan, compressor, dtype } = facts;
  const wire = dtype === undefined ? '' : ` · plan ${plan} · ${compressor}, ${dtype}`;
  return `${run} (${run_id})${wire}`;
}

import type { App } from '../../core/session/app.svelte';

export const kFormats = [
  { format: 'png', name: 'PNG picture', text: 'the view with its title, axes and legend' },
  { format: 'csv', name: 'CSV tables', text: 'the numbers, for a spreadsheet' },
  { format: 'npz', name: 'NPZ arrays', text: 'the numbers bit by bit, for numpy' },
] as const;
export type Format = (typeof kFormats)[number]['format'];

/** Whether the current view shows numbers that a file can hold. */
export function hasNumbers(app: App): boolean {
  const { frame, comparison } = app;
  switch (app.view.tab) {
    case 'overview':
      return app.scalars().length > 0;
    case 'plan':
    case 'interventions':
      return false;
    case 'compare':
      return comparison.compared.pair !== null;
    case 'text':
      return frame !== null && (frame.kind === 'topk' || frame.tokens !== null);
    case 'tensors':
      return frame !== null && frame.kind !== 'passed';
  }
}

/** Saves the current view to a file; what makes files is loaded when it is first needed. */
export async function exportView(app: App, format: Format): Promise<void> {
  const { saveView } = await import('./exports');
  await saveView(app, format);
}

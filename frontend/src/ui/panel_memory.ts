import { isRecord } from '../base/schema';
import { readStored, writeStored } from '../core/session/preferences';

const kKey = 'tensor-tracer.panels';

/** How the user left a panel. */
export interface PanelState {
  /** Share of the window that a resized panel takes, in percent; undefined: as the view has it. */
  readonly size?: number;
  readonly folded?: boolean;
}

/** What this browser keeps of the panel of that name. */
export function panelState(name: string): PanelState {
  const kept = readAll()[name];
  if (!isRecord(kept)) return {};
  const { size, folded } = kept;
  return {
    ...(typeof size === 'number' && size > 0 && size < 100 ? { size } : {}),
    ...(folded === true ? { folded } : {}),
  };
}

export function keepPanelState(name: string, state: PanelState): void {
  writeStored(kKey, JSON.stringify({ ...readAll(), [name]: state }));
}

function readAll(): Readonly<Record<string, unknown>> {
  try {
    const kept: unknown = JSON.parse(readStored(kKey) ?? '{}');
    return isRecord(kept) ? kept : {};
  } catch {
    return {};
  }
}

import { isRecord } from '../base/schema';
import { readStored, writeStored } from '../core/session/preferences';

const kKey = 'tensor-tracer.panels';

/** The state in which the user left a panel. */
export interface PanelState {
  /** The width of a resized panel in percent of its container; undefined for the default width. */
  readonly size?: number;
  readonly folded?: boolean;
}

/** The state that this browser stores for the panel with this name. */
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

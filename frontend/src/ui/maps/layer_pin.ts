import type { Session } from '../../core/session/session';
import type { FrameBase } from '../../core/store/frames';
import { type Pin, toggled } from '../../core/store/pin';
import type { Cell } from './heatmap_view';

// Pins of maps with layers down and tokens across: the pin is of the shown layer.

type Layers = Pick<FrameBase, 'layer' | 'layers'>;

/** What a click on a cell shows: the token of the layer is pinned, or let go. */
export function afterClick(
  pin: Pin | null,
  { layer, layers }: Layers,
  row: number,
  col: number,
): { readonly layer: number; readonly pin: Pin | null } {
  const to = layers[row];
  return { layer: to, pin: to === layer ? toggled(pin, col, null) : { col, cell: null } };
}

export function pinInLayer(
  session: Pick<Session, 'view' | 'show'>,
  frame: Layers,
  row: number,
  col: number,
): void {
  session.show(afterClick(session.view.pin, frame, row, col));
}

/** Where the pin stands on the map. */
export function cellOfPin(pin: Pin | null, { layer, layers }: Layers): Cell | null {
  return pin === null ? null : { row: layers.indexOf(layer), col: pin.col };
}

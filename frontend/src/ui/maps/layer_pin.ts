import type { Session } from '../../core/session/session';
import type { FrameBase } from '../../core/store/frames';
import { type Pin, toggled } from '../../core/store/pin';
import type { Cell } from './heatmap_view';

// Pins in maps with layers as rows and tokens as columns. A pin belongs to the shown layer.

type Layers = Pick<FrameBase, 'layer' | 'layers'>;

/** The view after a click on a cell: the token of its layer is pinned, or the pin is removed. */
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

/** The cell of the pin on the map. */
export function cellOfPin(pin: Pin | null, { layer, layers }: Layers): Cell | null {
  return pin === null ? null : { row: layers.indexOf(layer), col: pin.col };
}

/** A cell of a map: its column (a token) and its row; `cell` null is the summary of the layer. */
export interface Pin {
  readonly col: number;
  readonly cell: number | null;
}

/** The pin after a click on a cell. A click on the pinned cell removes the pin. */
export function toggled(pin: Pin | null, col: number, cell: number | null): Pin | null {
  return pin?.col === col && pin.cell === cell ? null : { col, cell };
}

/** The pin in the address: "12.34" is column 12 of row 34; "12" is column 12 of a layer's summary. */
export function pinText({ col, cell }: Pin): string {
  return cell === null ? String(col) : `${col}.${cell}`;
}

export function pinOfText(text: string): Pin | undefined {
  const parts = /^(\d{1,9})(?:\.(\d{1,9}))?$/.exec(text);
  if (parts === null) return undefined;
  return { col: Number(parts[1]), cell: parts[2] === undefined ? null : Number(parts[2]) };
}

type Line = readonly (number | null)[];

/** The value of the pinned cell, and of the cells along each axis. Null: not captured. */
export interface Pinned {
  readonly pin: Pin;
  readonly value: number | null;
  /** The values of the same step and layer, by column of the map. */
  readonly overColumns: Line;
  /** The values of the same step, by layer of the frame. */
  readonly overLayers: Line;
  /** The steps of `overSteps`, the values of the same layer. */
  readonly steps: readonly number[];
  readonly overSteps: Line;
}

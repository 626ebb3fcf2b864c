/** A cell of a map: its column (a token), and its row; null: the summary of the layer. */
export interface Pin {
  readonly col: number;
  readonly cell: number | null;
}

/** The pin after a click on a cell: a click on the pinned one lets it go. */
export function toggled(pin: Pin | null, col: number, cell: number | null): Pin | null {
  return pin?.col === col && pin.cell === cell ? null : { col, cell };
}

/** As in an address: "12.34": column 12 of row 34; "12": of the summary of a layer. */
export function pinText({ col, cell }: Pin): string {
  return cell === null ? String(col) : `${col}.${cell}`;
}

export function pinOfText(text: string): Pin | undefined {
  const parts = /^(\d{1,9})(?:\.(\d{1,9}))?$/.exec(text);
  if (parts === null) return undefined;
  return { col: Number(parts[1]), cell: parts[2] === undefined ? null : Number(parts[2]) };
}

type Line = readonly (number | null)[];

/** The value of one cell, and of those beside it. Null: not captured. */
export interface Pinned {
  readonly pin: Pin;
  readonly value: number | null;
  /** Of the same step and layer, along the columns of the map. */
  readonly overColumns: Line;
  /** Of the same step, by layer of the frame. */
  readonly overLayers: Line;
  /** Of the same layer. */
  readonly steps: readonly number[];
  readonly overSteps: Line;
}

import { foldExtremes } from '../../core/store/fold';
import type { MapData } from '../../core/store/map_data';
import { type ColumnMark, drawColumnMarks } from './column_marks';
import { type Lut, unpack } from './lut';
import { paintCells, type Scale } from './paint';

/** What a heat map shows; the view draws it and keeps nothing else. */
export interface HeatmapModel {
  readonly map: MapData;
  readonly scale: Scale;
  readonly lut: Lut;
  /** Labels of the rows, and the row that is marked. */
  readonly rowLabel: (row: number) => string;
  readonly markedRow: number | null;
  readonly columnLabel: (col: number) => string;
  readonly showColumns: boolean;
  /** As many labels as fit: words of a text, not numbers of an axis. */
  readonly dense: boolean;
  /** Their colours are CSS. */
  readonly marks: readonly ColumnMark[];
  readonly cursor: Cell | null;
  readonly inkMuted: string;
  readonly inkStrong: string;
}

export interface Cell {
  readonly row: number;
  readonly col: number;
}

export const kGutterLeft = 44;
const kAxisHeight = 18;
const kFont = '10.5px system-ui, sans-serif';

/** Draws one heat map with its axes on a canvas that it fills. */
export class HeatmapView {
  private readonly context: CanvasRenderingContext2D;
  private readonly cells = document.createElement('canvas');
  /** Of labels in the font of the axes. */
  private readonly widths = new Map<string, number>();
  private image: ImageData | undefined;
  private fold: { of: MapData; h: number; w: number; folded: MapData } | undefined;
  private painted: { map: MapData; scale: Scale; lut: Lut; w: number; h: number } | undefined;
  private width = 0;
  private height = 0;
  private ratio = 1;
  private axis = 0;

  constructor(private readonly canvas: HTMLCanvasElement) {
    const context = canvas.getContext('2d', { alpha: true });
    if (context === null) throw new Error('no 2D canvas');
    this.context = context;
  }

  /** The cell under a point of the canvas in CSS pixels, if any. */
  cellAt(map: MapData, x: number, y: number): Cell | null {
    const plotWidth = this.width - kGutterLeft;
    const plotHeight = this.height - this.axis;
    if (x < kGutterLeft || y < 0 || x >= this.width || y >= plotHeight) return null;
    const col = Math.floor(((x - kGutterLeft) / plotWidth) * map.cols);
    const row = Math.floor((y / plotHeight) * map.rows);
    return { row: Math.min(row, map.rows - 1), col: Math.min(col, map.cols - 1) };
  }

  /** The middle of a cell in the window's CSS pixels. */
  pointOf(map: MapData, cell: Cell): { x: number; y: number } {
    const box = this.canvas.getBoundingClientRect();
    const plotWidth = this.width - kGutterLeft;
    const plotHeight = this.height - this.axis;
    return {
      x: box.left + kGutterLeft + ((cell.col + 0.5) / map.cols) * plotWidth,
      y: box.top + ((cell.row + 0.5) / map.rows) * plotHeight,
    };
  }

  draw(model: HeatmapModel): void {
    this.fit();
    this.axis = model.showColumns ? kAxisHeight : 0;
    const plotWidth = this.width - kGutterLeft;
    const plotHeight = this.height - this.axis;
    this.context.setTransform(1, 0, 0, 1, 0, 0);
    this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (plotWidth <= 0 || plotHeight <= 0 || model.map.cols === 0) return;
    this.paint(model, plotWidth, plotHeight);
    this.context.imageSmoothingEnabled = false;
    const left = Math.round(kGutterLeft * this.ratio);
    const bottom = Math.round(plotHeight * this.ratio);
    this.context.drawImage(this.cells, left, 0, this.canvas.width - left, bottom);
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.drawRows(model, plotHeight);
    if (model.showColumns) this.drawColumns(model, plotWidth, plotHeight);
    const place = { left: kGutterLeft, width: plotWidth / model.map.cols, height: plotHeight };
    drawColumnMarks(this.context, model.marks, place);
    if (model.cursor !== null) this.drawCursor(model, model.cursor, plotWidth, plotHeight);
  }

  private fit(): void {
    const { clientWidth, clientHeight } = this.canvas;
    this.ratio = window.devicePixelRatio;
    this.width = clientWidth;
    this.height = clientHeight;
    const width = Math.round(clientWidth * this.ratio);
    const height = Math.round(clientHeight * this.ratio);
    if (this.canvas.width !== width) this.canvas.width = width;
    if (this.canvas.height !== height) this.canvas.height = height;
  }

  private paint(model: HeatmapModel, plotWidth: number, plotHeight: number): void {
    const w = Math.round(plotWidth * this.ratio);
    const h = Math.round(plotHeight * this.ratio);
    const { map, scale, lut } = model;
    const old = this.painted;
    const same =
      old !== undefined &&
      old.map === map &&
      old.lut === lut &&
      old.w === w &&
      old.h === h &&
      old.scale.low === scale.low &&
      old.scale.high === scale.high;
    if (same) return;
    const folded = this.folded(map, h, w);
    const context = this.cells.getContext('2d', { alpha: false });
    if (context === null) return;
    if (this.image?.width !== folded.cols || this.image.height !== folded.rows) {
      this.cells.width = folded.cols;
      this.cells.height = folded.rows;
      this.image = context.createImageData(folded.cols, folded.rows);
    }
    paintCells(folded, scale, lut, new Uint32Array(this.image.data.buffer));
    context.putImageData(this.image, 0, 0);
    this.painted = { map, scale, lut, w, h };
  }

  /** Another scale needs no other fold. */
  private folded(map: MapData, h: number, w: number): MapData {
    const kept = this.fold;
    if (kept?.of === map && kept.h === h && kept.w === w) return kept.folded;
    const folded = foldExtremes(map, h, w, kept?.of === kept?.folded ? undefined : kept?.folded);
    this.fold = { of: map, h, w, folded };
    return folded;
  }

  private drawRows(model: HeatmapModel, plotHeight: number): void {
    const { context } = this;
    const rowHeight = plotHeight / model.map.rows;
    const [whole, apart] = model.dense ? [11, 11] : [13, 20];
    const every = rowHeight >= whole ? 1 : niceStep(apart / rowHeight);
    context.font = kFont;
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    for (let row = 0; row < model.map.rows; row++) {
      const marked = row === model.markedRow;
      const regular = row % every === 0;
      const crowded =
        model.markedRow !== null && !marked && Math.abs(row - model.markedRow) * rowHeight < 12;
      if (!marked && (!regular || crowded)) continue;
      const y = Math.min(Math.max((row + 0.5) * rowHeight, 6), plotHeight - 6);
      context.fillStyle = marked ? model.inkStrong : model.inkMuted;
      context.fillText(model.rowLabel(row), kGutterLeft - 7, y, kGutterLeft - 9);
      if (marked) context.fillRect(kGutterLeft - 4, row * rowHeight, 3, Math.max(2, rowHeight));
    }
  }

  private drawColumns(model: HeatmapModel, plotWidth: number, plotHeight: number): void {
    const { context } = this;
    const columnWidth = plotWidth / model.map.cols;
    context.font = kFont;
    const every = model.dense ? this.densestStep(model, columnWidth) : niceStep(56 / columnWidth);
    context.textAlign = 'center';
    context.textBaseline = 'top';
    context.fillStyle = model.inkMuted;
    for (let col = 0; col < model.map.cols; col += every) {
      const x = kGutterLeft + (col + 0.5) * columnWidth;
      context.fillRect(Math.round(x) - 0.5, plotHeight, 1, 3);
      const text = model.columnLabel(col);
      const half = context.measureText(text).width / 2;
      const at = Math.min(Math.max(x, kGutterLeft + half), this.width - half);
      context.fillText(text, at, plotHeight + 5);
    }
  }

  /** The smallest step of columns at which no label touches the next. */
  private densestStep({ map, columnLabel }: HeatmapModel, columnWidth: number): number {
    const widths = Array.from({ length: map.cols }, (_, col) => this.widthOf(columnLabel(col)));
    let step = 1;
    const fits = (): boolean =>
      widths.every((width, col) => col % step !== 0 || width + 3 <= step * columnWidth);
    while (step < map.cols && !fits()) step *= 2;
    return step;
  }

  private widthOf(text: string): number {
    let width = this.widths.get(text);
    if (width === undefined) {
      width = this.context.measureText(text).width;
      this.widths.set(text, width);
    }
    return width;
  }

  private drawCursor(model: HeatmapModel, at: Cell, plotWidth: number, plotHeight: number): void {
    const { context } = this;
    const columnWidth = plotWidth / model.map.cols;
    const rowHeight = plotHeight / model.map.rows;
    const x = kGutterLeft + at.col * columnWidth;
    context.strokeStyle = model.inkStrong;
    context.lineWidth = 1;
    context.globalAlpha = 0.45;
    context.strokeRect(x - 0.5, 0, Math.max(2, columnWidth) + 1, plotHeight);
    if (at.row >= 0) {
      const y = at.row * rowHeight;
      context.strokeRect(kGutterLeft, y - 0.5, plotWidth, Math.max(2, rowHeight) + 1);
      context.globalAlpha = 1;
      context.strokeRect(
        x - 0.5,
        y - 0.5,
        Math.max(2, columnWidth) + 1,
        Math.max(2, rowHeight) + 1,
      );
    }
    context.globalAlpha = 1;
  }
}

/** Draws the ramp of a table, low to high, left to right. */
export function drawRamp(canvas: HTMLCanvasElement, lut: Lut): void {
  canvas.width = 256;
  canvas.height = 1;
  const context = canvas.getContext('2d');
  if (context === null) return;
  const image = context.createImageData(256, 1);
  new Uint32Array(image.data.buffer).set(lut.colors);
  context.putImageData(image, 0, 0);
}

export function cssColor(word: number): string {
  return `rgb(${unpack(word).join(' ')})`;
}

/** The smallest of 1, 2, 4, 8, 16, … that is at least `wanted`. */
function niceStep(wanted: number): number {
  let step = 1;
  while (step < wanted) step *= 2;
  return step;
}

import { foldExtremes } from '../../core/store/fold';
import type { MapData } from '../../core/store/map_data';
import { type ColumnMark, drawColumnMarks } from './column_marks';
import { type Lut, unpack } from './lut';
import { type AxesModel, axisHeight, drawColumnAxis, drawRowAxis, gutterWidth } from './map_axes';
import { paintCells, type Scale } from './paint';

/** The complete content of a heat map, which the view draws. The view keeps only caches. */
export interface HeatmapModel extends AxesModel {
  readonly scale: Scale;
  readonly lut: Lut;
  /** The marks; their colours are CSS. */
  readonly marks: readonly ColumnMark[];
  readonly cursor: Cell | null;
  /** The pinned cell; row −1 means the whole column. */
  readonly pinned: Cell | null;
  readonly accent: string;
}

export interface Cell {
  readonly row: number;
  readonly col: number;
}

/** Draws one heat map with its axes on a canvas; it fills the canvas. */
export class HeatmapView {
  private readonly context: CanvasRenderingContext2D;
  private readonly cells = document.createElement('canvas');
  private image: ImageData | undefined;
  private fold: { of: MapData; h: number; w: number; folded: MapData } | undefined;
  private painted: { map: MapData; scale: Scale; lut: Lut; w: number; h: number } | undefined;
  private width = 0;
  private height = 0;
  private ratio = 1;
  private axis = 0;
  private gutter = 0;

  constructor(private readonly canvas: HTMLCanvasElement) {
    const context = canvas.getContext('2d', { alpha: true });
    if (context === null) throw new Error('no 2D canvas');
    this.context = context;
  }

  /** The cell at a position on the canvas in CSS pixels; null outside the cells. */
  cellAt(map: MapData, x: number, y: number): Cell | null {
    const plotWidth = this.width - this.gutter;
    const plotHeight = this.height - this.axis;
    if (x < this.gutter || y < 0 || x >= this.width || y >= plotHeight) return null;
    const col = Math.floor(((x - this.gutter) / plotWidth) * map.cols);
    const row = Math.floor((y / plotHeight) * map.rows);
    return { row: Math.min(row, map.rows - 1), col: Math.min(col, map.cols - 1) };
  }

  /** The position on the map, in cells, of a position on the canvas; limited to the map. */
  placeAt(map: MapData, x: number, y: number): { readonly row: number; readonly col: number } {
    const across = (x - this.gutter) / (this.width - this.gutter);
    const down = y / (this.height - this.axis);
    const inside = (share: number): number => Math.min(0.999999, Math.max(0, share));
    return { row: inside(down) * map.rows, col: inside(across) * map.cols };
  }

  /** The middle of a cell in CSS pixels of the window. */
  pointOf(map: MapData, cell: Cell): { x: number; y: number } {
    const box = this.canvas.getBoundingClientRect();
    const plotWidth = this.width - this.gutter;
    const plotHeight = this.height - this.axis;
    return {
      x: box.left + this.gutter + ((cell.col + 0.5) / map.cols) * plotWidth,
      y: box.top + ((cell.row + 0.5) / map.rows) * plotHeight,
    };
  }

  draw(model: HeatmapModel): void {
    this.fit();
    this.axis = axisHeight(model);
    this.gutter = gutterWidth(model);
    const plotWidth = this.width - this.gutter;
    const plotHeight = this.height - this.axis;
    this.context.setTransform(1, 0, 0, 1, 0, 0);
    this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (plotWidth <= 0 || plotHeight <= 0 || model.map.cols === 0) return;
    this.paint(model, plotWidth, plotHeight);
    this.context.imageSmoothingEnabled = false;
    const left = Math.round(this.gutter * this.ratio);
    const bottom = Math.round(plotHeight * this.ratio);
    this.context.drawImage(this.cells, left, 0, this.canvas.width - left, bottom);
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    const plot = { left: this.gutter, width: plotWidth, height: plotHeight };
    drawRowAxis(this.context, model, plot);
    if (model.showColumns) drawColumnAxis(this.context, model, plot);
    const place = { ...plot, width: plotWidth / model.map.cols };
    drawColumnMarks(this.context, model.marks, place);
    if (model.pinned !== null) this.drawPin(model, model.pinned, plotWidth, plotHeight);
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

  /** The folded map. It is reused if only the scale changes. */
  private folded(map: MapData, h: number, w: number): MapData {
    const kept = this.fold;
    if (kept?.of === map && kept.h === h && kept.w === w) return kept.folded;
    const folded = foldExtremes(map, h, w, kept?.of === kept?.folded ? undefined : kept?.folded);
    this.fold = { of: map, h, w, folded };
    return folded;
  }

  private drawPin(model: HeatmapModel, at: Cell, plotWidth: number, plotHeight: number): void {
    const { context } = this;
    const [width, height] = [plotWidth / model.map.cols, plotHeight / model.map.rows];
    const x = this.gutter + at.col * width;
    const y = at.row < 0 ? 0 : at.row * height;
    const tall = at.row < 0 ? plotHeight : Math.max(3, height);
    context.lineWidth = 2;
    context.strokeStyle = model.accent;
    context.strokeRect(x - 1, y - 1, Math.max(3, width) + 2, tall + 2);
    context.fillStyle = model.accent;
    context.fillRect(x - 1, plotHeight, Math.max(3, width) + 2, 3);
  }

  private drawCursor(model: HeatmapModel, at: Cell, plotWidth: number, plotHeight: number): void {
    const { context } = this;
    const columnWidth = plotWidth / model.map.cols;
    const rowHeight = plotHeight / model.map.rows;
    const x = this.gutter + at.col * columnWidth;
    context.strokeStyle = model.inkStrong;
    context.lineWidth = 1;
    context.globalAlpha = 0.45;
    context.strokeRect(x - 0.5, 0, Math.max(2, columnWidth) + 1, plotHeight);
    if (at.row >= 0) {
      const y = at.row * rowHeight;
      context.strokeRect(this.gutter, y - 0.5, plotWidth, Math.max(2, rowHeight) + 1);
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

/** Draws the colours of a table as a ramp, from low (left) to high (right). */
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

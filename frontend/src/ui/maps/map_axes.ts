import type { MapData } from '../../core/store/map_data';
import { niceStep, textRuns } from './token_runs';

// The axes of a heat map: numbers or names, and for tokens also their text.

const kFont = '12px system-ui, sans-serif';
const kMonoSize = 11;
const kGutter = 44;
const kTextGutter = 92;
const kNumbersHeight = 18;
const kTextHeight = 14;

export interface AxesModel {
  readonly map: MapData;
  /** The labels of the rows, and the marked row. */
  readonly rowLabel: (row: number) => string;
  readonly markedRow: number | null;
  readonly columnLabel: (col: number) => string;
  readonly showColumns: boolean;
  /** Only for axes of tokens: the text of each token. */
  readonly rowText?: (row: number) => string;
  readonly columnText?: (col: number) => string;
  readonly inkMuted: string;
  readonly inkStrong: string;
}

/** The area of the cells on the canvas, in CSS pixels. */
interface Plot {
  readonly left: number;
  readonly width: number;
  readonly height: number;
}

type Context = CanvasRenderingContext2D;

export function gutterWidth({ rowText }: Pick<AxesModel, 'rowText'>): number {
  return rowText === undefined ? kGutter : kTextGutter;
}

export function axisHeight({
  showColumns,
  columnText,
}: Pick<AxesModel, 'showColumns' | 'columnText'>): number {
  if (!showColumns) return 0;
  return kNumbersHeight + (columnText === undefined ? 0 : kTextHeight);
}

export function drawRowAxis(context: Context, model: AxesModel, plot: Plot): void {
  const { map, markedRow } = model;
  const rowHeight = plot.height / map.rows;
  const every = rowHeight >= 13 ? 1 : niceStep(20 / rowHeight);
  context.textBaseline = 'middle';
  for (let row = 0; row < map.rows; row++) {
    const marked = row === markedRow;
    const crowded = markedRow !== null && !marked && Math.abs(row - markedRow) * rowHeight < 12;
    if (!marked && (row % every !== 0 || crowded)) continue;
    const y = Math.min(Math.max((row + 0.5) * rowHeight, 6), plot.height - 6);
    context.fillStyle = marked ? model.inkStrong : model.inkMuted;
    context.font = kFont;
    context.textAlign = 'right';
    const right = plot.left - 7;
    const room = model.rowText === undefined ? plot.left - 9 : 26;
    const at = model.rowText === undefined ? right : 28;
    context.fillText(model.rowLabel(row), at, y, room);
    if (marked) context.fillRect(plot.left - 4, row * rowHeight, 3, Math.max(2, rowHeight));
    if (model.rowText === undefined) continue;
    context.textAlign = 'left';
    drawText(context, model, textFrom(model.rowText, row, map.rows, every), 34, y);
  }
}

const kRowChars = 8;

/** The text of a row's token; if not every row has a label, the text of the tokens from it on. */
function textFrom(
  textOf: (row: number) => string,
  row: number,
  rows: number,
  every: number,
): string {
  if (every === 1) return textOf(row).slice(0, kRowChars);
  let text = '';
  for (let at = row; at < Math.min(rows, row + every) && text.length < kRowChars; at++) {
    text += textOf(at).replace(/␣/g, ' ');
  }
  return text.slice(0, kRowChars);
}

export function drawColumnAxis(context: Context, model: AxesModel, plot: Plot): void {
  const { map, columnText } = model;
  const cell = plot.width / map.cols;
  const stride = niceStep(64 / cell);
  const right = plot.left + plot.width;
  context.font = kFont;
  context.textBaseline = 'top';
  context.textAlign = columnText === undefined ? 'center' : 'left';
  context.fillStyle = model.inkMuted;
  for (let col = 0; col < map.cols; col += stride) {
    const x = plot.left + (col + 0.5) * cell;
    context.fillRect(Math.round(x) - 0.5, plot.height, 1, 3);
    const text = model.columnLabel(col);
    const width = context.measureText(text).width;
    const from = columnText === undefined ? width / 2 : 0;
    const at = Math.min(Math.max(x - (columnText ? 2 : 0), plot.left + from), right - width + from);
    context.fillText(text, at, plot.height + 5);
  }
  if (columnText !== undefined) drawColumnTexts(context, model, plot, stride, columnText);
}

function drawColumnTexts(
  context: Context,
  model: AxesModel,
  plot: Plot,
  stride: number,
  textOf: (col: number) => string,
): void {
  const cell = plot.width / model.map.cols;
  context.font = monoFont(context);
  const char = context.measureText('M').width;
  const texts = Array.from({ length: model.map.cols }, (_, col) => textOf(col));
  const { each, runs } = textRuns(texts, cell, char, stride);
  context.textAlign = each ? 'center' : 'left';
  const shift = each ? cell / 2 : 0;
  for (const { at, text } of runs) {
    drawText(context, model, text, plot.left + at * cell + shift, plot.height + kNumbersHeight);
  }
}

function drawText(context: Context, model: AxesModel, text: string, x: number, y: number): void {
  context.font = monoFont(context);
  context.fillStyle = model.inkStrong;
  context.fillText(text, x, y);
}

function monoFont({ canvas }: Context): string {
  return `${kMonoSize}px ${getComputedStyle(canvas).getPropertyValue('--mono')}`;
}

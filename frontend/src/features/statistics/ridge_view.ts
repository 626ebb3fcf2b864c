/** Histograms, one for each row, with the same scale of height. */
export interface RidgeModel {
  readonly rows: number;
  readonly cols: number;
  /** Row by row, the first at the top. */
  readonly bins: ArrayLike<number>;
  readonly rowLabel: (row: number) => string;
  readonly rowColor: (row: number) => string;
  readonly cursor: { readonly row: number; readonly col: number } | null;
  readonly panel: string;
  readonly inkMuted: string;
  readonly inkStrong: string;
}

const kGutter = 44;
const kFont = '12px system-ui, sans-serif';
// A ridge is at most as high as this number of rows.
const kReach = 3;

/** Draws ridges over the whole canvas. */
export class RidgeView {
  private readonly context: CanvasRenderingContext2D;
  private width = 0;
  private height = 0;

  constructor(private readonly canvas: HTMLCanvasElement) {
    const context = canvas.getContext('2d');
    if (context === null) throw new Error('no 2D canvas');
    this.context = context;
  }

  /** The bin at a point of the canvas in CSS pixels, in the row with the next foot below the point. */
  binAt(rows: number, cols: number, x: number, y: number): { row: number; col: number } | null {
    if (rows === 0 || cols === 0 || x < kGutter || x >= this.width) return null;
    const row = Math.ceil((y - this.foot(0, rows)) / this.spacing(rows));
    const col = Math.floor(((x - kGutter) / (this.width - kGutter)) * cols);
    return { row: Math.min(Math.max(row, 0), rows - 1), col };
  }

  draw(model: RidgeModel): void {
    const { canvas, context } = this;
    const ratio = window.devicePixelRatio;
    this.width = canvas.clientWidth;
    this.height = canvas.clientHeight;
    canvas.width = Math.round(this.width * ratio);
    canvas.height = Math.round(this.height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (this.width <= kGutter || model.rows === 0) return;
    let most = 0;
    for (let i = 0; i < model.bins.length; i++) most = Math.max(most, model.bins[i]);
    for (let row = 0; row < model.rows; row++) this.drawRow(model, row, most);
    this.drawLabels(model);
  }

  private drawRow(model: RidgeModel, row: number, most: number): void {
    const { context } = this;
    const { cols, rows, cursor } = model;
    const foot = this.foot(row, rows);
    const high = most === 0 ? 0 : (this.peak(rows) - 1) / most;
    const binWidth = (this.width - kGutter) / cols;
    context.beginPath();
    context.moveTo(kGutter, foot);
    for (let col = 0; col < cols; col++) {
      context.lineTo(kGutter + (col + 0.5) * binWidth, foot - model.bins[row * cols + col] * high);
    }
    context.lineTo(this.width, foot);
    context.fillStyle = model.panel;
    context.globalAlpha = 0.8;
    context.fill();
    context.fillStyle = model.rowColor(row);
    context.globalAlpha = 0.16;
    context.fill();
    context.globalAlpha = 1;
    context.strokeStyle = cursor?.row === row ? model.inkStrong : model.rowColor(row);
    context.lineWidth = cursor?.row === row ? 1.8 : 1;
    context.stroke();
    if (cursor?.row !== row) return;
    context.fillStyle = model.inkStrong;
    const at = foot - model.bins[row * cols + cursor.col] * high;
    context.fillRect(kGutter + (cursor.col + 0.5) * binWidth - 2, at - 2, 4, 4);
  }

  private drawLabels({ rows, rowLabel, inkMuted }: RidgeModel): void {
    const { context } = this;
    const every = Math.max(1, Math.ceil(13 / this.spacing(rows)));
    context.font = kFont;
    context.textAlign = 'right';
    context.textBaseline = 'alphabetic';
    context.fillStyle = inkMuted;
    // The labels start at the last row, which is the newest.
    for (let row = rows - 1; row >= 0; row -= every) {
      context.fillText(rowLabel(row), kGutter - 6, this.foot(row, rows), kGutter - 8);
    }
  }

  private spacing(rows: number): number {
    return (this.height - 2) / (rows + Math.min(kReach, rows) - 1);
  }

  private peak(rows: number): number {
    return this.spacing(rows) * Math.min(kReach, rows);
  }

  private foot(row: number, rows: number): number {
    return this.peak(rows) + row * this.spacing(rows);
  }
}

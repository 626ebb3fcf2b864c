import type uPlot from 'uplot';

interface Bar {
  top: number;
  bottom: number;
  /** The y position at which the line leaves the column. */
  end: number;
}

/**
 * Draws a line with more points than pixels. Each pixel column gets a bar from its smallest to its
 * largest value, extended to the end of the line in the column before. The result looks like the
 * stroked line and takes a tenth of its time.
 */
export function drawDenseLine(plot: uPlot, index: number, color: string): void {
  const { ctx, data, bbox } = plot;
  const { alpha = 1, width = 1 } = plot.series[index];
  const [steps, values] = [data[0], data[index]];
  const toX = placer(plot, 'x');
  const toY = placer(plot, 'y');
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.globalAlpha = alpha;
  ctx.fillStyle = color;
  const filler = new ColumnFiller(ctx, width * devicePixelRatio);
  let column = Number.NaN;
  let bar: Bar | null = null;
  for (let row = 0; row < steps.length; row++) {
    const value = values[row];
    const at = Math.floor(toX(steps[row]));
    if (at !== column || value === null || value === undefined) {
      if (bar !== null) filler.fill(column, bar);
      // The next column begins at the end of this column; a missing value breaks the line.
      const from: number | null = bar === null || value === null ? null : bar.end;
      bar = from === null ? null : { top: from, bottom: from, end: from };
      column = at;
    }
    if (value === null || value === undefined) continue;
    const y = toY(value);
    bar ??= { top: y, bottom: y, end: y };
    bar.top = Math.min(bar.top, y);
    bar.bottom = Math.max(bar.bottom, y);
    bar.end = y;
  }
  if (bar !== null) filler.fill(column, bar);
  filler.flush();
  ctx.restore();
}

/** Fills whole pixels, and equal adjacent columns at once, because a canvas fills these fastest. */
class ColumnFiller {
  private begin = 0;
  private end = 0;
  private above = 0;
  private below = 0;

  constructor(
    private readonly ctx: CanvasRenderingContext2D,
    private readonly thick: number,
  ) {}

  fill(column: number, { top, bottom }: Bar): void {
    const high = Math.round(top - this.thick / 2);
    const low = Math.max(high + 1, Math.round(bottom + this.thick / 2));
    if (column !== this.end || high !== this.above || low !== this.below) {
      this.flush();
      [this.begin, this.above, this.below] = [column, high, low];
    }
    this.end = column + 1;
  }

  flush(): void {
    const { begin, end, above, below } = this;
    if (end > begin) this.ctx.fillRect(begin, above, end - begin, below - above);
  }
}

/** A function from values of a scale to canvas positions: as `valToPos`, but with one look-up. */
function placer(plot: uPlot, scale: 'x' | 'y'): (value: number) => number {
  const { min = 0, max = 1, distr } = plot.scales[scale];
  const isLog = (distr as number | undefined) === 3;
  const [from, to] = [plot.valToPos(min, scale, true), plot.valToPos(max, scale, true)];
  const [low, high] = isLog ? [Math.log(min), Math.log(max)] : [min, max];
  const factor = (to - from) / (high - low || 1);
  return isLog
    ? (value) => from + (Math.log(value) - low) * factor
    : (value) => from + (value - low) * factor;
}

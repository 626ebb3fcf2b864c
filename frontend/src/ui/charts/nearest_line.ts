import type uPlot from 'uplot';
import { formatNumber } from '../../base/format';
import type { LineStyle } from './line_style';

const kNearPixels = 24;
// A longer movement of the pressed mouse is a drag.
const kClickPixels = 4;

/** The index of the height that is nearest to `y`, at most `most` away; null if no height is so near. */
export function nearestOf(
  heights: readonly (number | null)[],
  y: number,
  most: number,
): number | null {
  let best: number | null = null;
  let distance = most;
  heights.forEach((height, index) => {
    if (height === null || !(Math.abs(height - y) <= distance)) return;
    distance = Math.abs(height - y);
    best = index;
  });
  return best;
}

interface Target {
  readonly lines: () => readonly LineStyle[];
  readonly color: (name: string) => string;
  readonly onPick: (line: number) => void;
}

/** Names and highlights the line next to the mouse; a click on it picks it. */
export class NearestLine {
  private readonly sheet = document.createElement('div');
  private line: number | null = null;
  private pressed = { x: 0, y: 0, line: this.line };

  constructor(
    private readonly plot: uPlot,
    private readonly target: Target,
  ) {
    this.sheet.className = 'mark-tip';
    this.sheet.dataset.testid = 'line-tip';
    this.sheet.hidden = true;
    const { over } = plot;
    over.append(this.sheet);
    over.addEventListener('mousemove', (event) => this.move(event));
    over.addEventListener('mouseleave', () => this.choose(null));
    over.addEventListener('mousedown', (event) => this.press(event));
    // uPlot does not pass on clicks, so the release of the mouse counts.
    over.addEventListener('mouseup', (event) => this.release(event));
  }

  /** Draws the highlighted line again, thicker. For uPlot's draw hook. */
  draw(): void {
    const { plot, line } = this;
    if (line === null || plot.data.length <= line + 1) return;
    const { ctx, bbox, data } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.beginPath();
    let isOpen = false;
    data[line + 1].forEach((value, row) => {
      if (value === null || value === undefined) {
        isOpen = false;
        return;
      }
      const [x, y] = [plot.valToPos(data[0][row], 'x', true), plot.valToPos(value, 'y', true)];
      if (isOpen) ctx.lineTo(x, y);
      else ctx.moveTo(x, y);
      isOpen = true;
    });
    ctx.strokeStyle = this.target.color(this.target.lines()[line].color);
    ctx.lineWidth = 3 * devicePixelRatio;
    ctx.stroke();
    ctx.restore();
  }

  private move(event: MouseEvent): void {
    const { plot } = this;
    const { left, top, width } = plot.over.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    const row = plot.cursor.idx ?? null;
    const lines = this.target.lines();
    const value = (line: number): number | null =>
      row === null ? null : (plot.data[line + 1]?.[row] ?? null);
    const heights = lines.map(({ kind }, line) => {
      const at = kind === 'faint' ? null : value(line);
      return at === null ? null : plot.valToPos(at, 'y');
    });
    const near = event.buttons === 0 ? nearestOf(heights, y, kNearPixels) : null;
    this.choose(near);
    if (near === null) return;
    const [before, behind] = x < width / 2 ? [`${x + 12}px`, ''] : ['', `${width - x + 12}px`];
    this.sheet.style.left = before;
    this.sheet.style.right = behind;
    this.sheet.style.top = `${Math.max(0, y - 24)}px`;
    this.sheet.textContent = `${lines[near].label} ${formatNumber(value(near) ?? Number.NaN, 4)}`;
  }

  private choose(line: number | null): void {
    this.sheet.hidden = line === null;
    if (line === this.line) return;
    this.line = line;
    this.plot.redraw(false, false);
  }

  private press({ clientX: x, clientY: y, button }: MouseEvent): void {
    this.pressed = { x, y, line: button === 0 ? this.line : null };
  }

  private release({ clientX, clientY }: MouseEvent): void {
    const { x, y, line } = this.pressed;
    if (line === null || Math.hypot(clientX - x, clientY - y) > kClickPixels) return;
    this.target.onPick(line);
  }
}

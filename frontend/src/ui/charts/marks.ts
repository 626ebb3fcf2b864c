import type uPlot from 'uplot';

/** A mark of an event on the time axis. */
export interface Mark {
  readonly step: number;
  /** CSS, or the name of a custom property. */
  readonly color: string;
  readonly text: string;
}

const kNearPixels = 5;
const kMaxTold = 4;

/** Draws a thin line with a flag at its top for each mark; marks on the same pixel are drawn once. */
export function drawMarks(
  plot: uPlot,
  marks: readonly Mark[],
  chosen: number | null,
  color: (name: string) => string,
): void {
  const { ctx } = plot;
  const { top, height } = plot.bbox;
  const ratio = devicePixelRatio;
  ctx.save();
  let last = '';
  for (const mark of visible(plot, marks)) {
    const x = Math.round(plot.valToPos(mark.step, 'x', true));
    const place = `${x} ${mark.color}`;
    if (place === last) continue;
    last = place;
    ctx.fillStyle = color(mark.color);
    ctx.globalAlpha = 0.45;
    ctx.fillRect(x, top, ratio, height);
    ctx.globalAlpha = 1;
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x + 5 * ratio, top + 3 * ratio);
    ctx.lineTo(x, top + 6 * ratio);
    ctx.fill();
  }
  if (chosen !== null && visible(plot, [{ step: chosen }]).length > 0) {
    const x = Math.round(plot.valToPos(chosen, 'x', true));
    ctx.fillStyle = color('--accent');
    ctx.fillRect(x - ratio / 2, top, 1.5 * ratio, height);
  }
  ctx.restore();
}

function visible<T extends { readonly step: number }>(plot: uPlot, marks: readonly T[]): T[] {
  const { min = 0, max = 0 } = plot.scales.x;
  return marks.filter(({ step }) => step >= min && step <= max);
}

/** Shows the texts of the marks near the mouse, in a small sheet beside it. */
export class MarkTip {
  private readonly sheet = document.createElement('div');

  constructor(
    private readonly plot: uPlot,
    private readonly marks: () => readonly Mark[],
  ) {
    this.sheet.className = 'mark-tip';
    this.sheet.dataset.testid = 'mark-tip';
    this.sheet.hidden = true;
    plot.over.append(this.sheet);
    plot.over.addEventListener('mousemove', (event) => this.onMove(event));
    plot.over.addEventListener('mouseleave', () => (this.sheet.hidden = true));
  }

  private onMove(event: MouseEvent): void {
    const { left, width } = this.plot.over.getBoundingClientRect();
    const x = event.clientX - left;
    const near = visible(this.plot, this.marks()).filter(
      ({ step }) => Math.abs(this.plot.valToPos(step, 'x') - x) <= kNearPixels,
    );
    this.sheet.hidden = near.length === 0;
    if (near.length === 0) return;
    const told = near.slice(0, kMaxTold).map(({ step, text }) => `step ${step}: ${text}`);
    if (near.length > kMaxTold) told.push(`and ${near.length - kMaxTold} more`);
    this.sheet.textContent = told.join('\n');
    this.sheet.style.left = x < width / 2 ? `${x + 12}px` : '';
    this.sheet.style.right = x < width / 2 ? '' : `${width - x + 12}px`;
  }
}

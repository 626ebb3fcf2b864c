import uPlot from 'uplot';
import type { Disposable } from '../base/disposable';
import { formatTick } from '../base/format';

/** How a line is drawn; `color` is CSS, or the name of a custom property of the style sheet. */
export interface LineStyle {
  readonly label: string;
  readonly color: string;
  readonly kind: 'line' | 'bold' | 'thin' | 'faint' | 'points' | 'dashed';
}

export interface ChartOptions {
  readonly lines: readonly LineStyle[];
  readonly logY: boolean;
  /** Index of the row under the cursor, or null; charts of one page share their cursor. */
  readonly onCursor: (index: number | null) => void;
}

type Values = readonly (number | null)[];

/** A line chart that keeps the user's zoom when data arrive. */
export class LineChart implements Disposable {
  private plot: uPlot | undefined;
  private data: uPlot.AlignedData;
  private zoomed = false;
  private settingData = false;
  private readonly observer: ResizeObserver;

  constructor(
    private readonly root: HTMLElement,
    private options: ChartOptions,
  ) {
    this.data = [[], ...options.lines.map(() => [])];
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(root);
  }

  setData(steps: readonly number[], lines: readonly Values[]): void {
    this.data = [steps as number[], ...lines.map((line) => line as (number | null)[])];
    if (this.plot === undefined) {
      this.rebuild();
      return;
    }
    this.settingData = true;
    this.plot.setData(this.data, !this.zoomed);
    if (this.zoomed) this.plot.redraw();
    this.settingData = false;
  }

  /** Draws anew with other options, or with the colours of another theme. */
  restyle(options: ChartOptions = this.options): void {
    this.options = options;
    if (this.plot !== undefined) this.rebuild();
  }

  dispose(): void {
    this.observer.disconnect();
    this.plot?.destroy();
  }

  private resize(): void {
    const { clientWidth: width, clientHeight: height } = this.root;
    if (this.plot === undefined) this.rebuild();
    else if (width > 0 && height > 0) this.plot.setSize({ width, height });
  }

  private rebuild(): void {
    const { clientWidth: width, clientHeight: height } = this.root;
    if (width === 0 || height === 0) return;
    const kept = this.zoomed ? this.plot?.scales.x : undefined;
    const range = kept === undefined ? undefined : { min: kept.min ?? 0, max: kept.max ?? 1 };
    this.plot?.destroy();
    this.settingData = true;
    this.plot = new uPlot(this.uplotOptions(width, height), this.data, this.root);
    this.settingData = false;
    if (range !== undefined) this.plot.setScale('x', range);
  }

  private uplotOptions(width: number, height: number): uPlot.Options {
    const color = this.palette();
    const axis: uPlot.Axis = {
      stroke: color('--ink-muted'),
      font: '10.5px system-ui, sans-serif',
      grid: { stroke: color('--grid'), width: 1 },
      ticks: { show: false },
    };
    return {
      width,
      height,
      padding: [8, 14, 0, 0],
      legend: { show: false },
      cursor: {
        sync: { key: 'steps' },
        points: { size: 5, width: 1 },
        drag: { x: true, y: false },
        y: false,
      },
      // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- ambient const enum
      scales: { x: { time: false }, y: { distr: this.options.logY ? 3 : 1 } },
      axes: [
        { ...axis, size: 22, gap: 4, space: 56, values: (_, ticks) => ticks.map(stepLabel) },
        {
          ...axis,
          size: kAxisWidth,
          gap: 5,
          space: 26,
          values: (_, ticks) => ticks.map(tickLabel),
        },
      ],
      series: [{}, ...this.options.lines.map((line) => seriesOf(line, color(line.color)))],
      hooks: this.hooks(),
    };
  }

  private hooks(): uPlot.Hooks.Arrays {
    return {
      setCursor: [(plot) => this.options.onCursor(plot.cursor.idx ?? null)],
      setScale: [
        (plot, key) => {
          if (key === 'x' && !this.settingData) this.zoomed = this.isZoomed(plot);
        },
      ],
    };
  }

  private isZoomed(plot: uPlot): boolean {
    const steps = this.data[0];
    if (steps.length < 2) return false;
    const { min, max } = plot.scales.x;
    if (min === undefined || max === undefined) return false;
    return min > steps[0] || max < steps[steps.length - 1];
  }

  private palette(): (name: string) => string {
    const style = getComputedStyle(this.root);
    return (name) => (name.startsWith('--') ? style.getPropertyValue(name).trim() : name);
  }
}

const kAxisWidth = 44;

function seriesOf(line: LineStyle, color: string): uPlot.Series {
  const base: uPlot.Series = { label: line.label, stroke: color, points: { show: false } };
  switch (line.kind) {
    case 'line':
      return { ...base, width: 1.5 };
    case 'bold':
      return { ...base, width: 2.5 };
    case 'thin':
      return { ...base, width: 1, alpha: 0.8 };
    case 'faint':
      return { ...base, width: 1, alpha: 0.28 };
    case 'dashed':
      return { ...base, width: 1, dash: [4, 4], points: { show: false } };
    case 'points':
      return {
        ...base,
        width: 0,
        paths: () => null,
        points: { show: true, size: 6, width: 1.5, stroke: color, fill: color },
      };
  }
}

function stepLabel(value: number | null): string {
  return value === null || !Number.isInteger(value) ? '' : String(value);
}

function tickLabel(value: number | null): string {
  return value === null ? '' : formatTick(value);
}

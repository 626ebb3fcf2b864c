import uPlot from 'uplot';
import type { Disposable } from '../../base/disposable';
import { formatTicks } from '../../base/format';
import { rowsToDraw } from '../../base/decimate';
import { nearestIndex, type Zoom } from '../../base/step_range';
import { attachZoom, type Zoomable, zoomByKey, zoomToSelection } from './chart_zoom';
import { drawDenseLine } from './dense_lines';
import type { LineStyle } from './line_style';
import { drawMarks, type Mark, MarkTip } from './marks';
import { NearestLine } from './nearest_line';

export interface ChartOptions {
  readonly lines: readonly LineStyle[];
  readonly logX: boolean;
  readonly logY: boolean;
  /** The index of the row under the cursor, or null; all charts of the page share their cursor. */
  readonly onCursor: (index: number | null) => void;
  readonly onZoom: (zoom: Zoom) => void;
  /** The user clicked a line; `line` is its index in `lines`. */
  readonly onPick?: (line: number) => void;
}

type Values = readonly (number | null)[];

export interface ChartContent {
  readonly steps: readonly number[];
  readonly lines: readonly Values[];
  /** Null shows all steps. New data never changes the zoom. */
  readonly zoom: Zoom;
  readonly marks: readonly Mark[];
  /** The step that the maps show, if it is not the newest. */
  readonly chosen: number | null;
}

const kNothing: ChartContent = { steps: [], lines: [], zoom: null, marks: [], chosen: null };
const kAxisWidth = 58; // of labels with up to 6 characters, such as 2.2e−4
const kWideAxisWidth = 72;
// A shorter movement of the pressed mouse is a click.
const kDragPixels = 4;

/** A line chart over steps. Of many more rows than pixels, it draws those that can be distinguished. */
export class LineChart implements Disposable, Zoomable {
  private plot: uPlot | undefined;
  private nearest: NearestLine | undefined;
  private content = kNothing;
  private dense = false;
  private color: (name: string) => string = (name) => name;
  private readonly observer: ResizeObserver;

  constructor(
    private readonly root: HTMLElement,
    private options: ChartOptions,
  ) {
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(root);
  }

  get log(): boolean {
    return this.options.logX;
  }

  get all(): readonly [number, number] {
    const { steps } = this.content;
    const [first, last] = [steps[0] ?? 1, steps[steps.length - 1] ?? 1];
    if (first < last) return [first, last];
    return this.log ? [first / 1.1, first * 1.1] : [first - 0.5, first + 0.5];
  }

  get range(): readonly [number, number] {
    return this.content.zoom ?? this.all;
  }

  zoomTo(zoom: Zoom): void {
    this.options.onZoom(zoom);
  }

  /** Handles a key; true if the key belongs to the chart. */
  onKey(event: KeyboardEvent): boolean {
    return zoomByKey(event, this);
  }

  show(content: ChartContent): void {
    this.content = content;
    if (this.plot === undefined) this.rebuild();
    else this.refill();
  }

  /** Rebuilds the chart with other options, or with the colours of another theme. */
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
    if (this.plot === undefined) {
      this.rebuild();
    } else if (width > 0 && height > 0) {
      this.plot.setSize({ width, height });
      this.refill();
    }
  }

  private rebuild(): void {
    const { clientWidth: width, clientHeight: height } = this.root;
    if (width === 0 || height === 0) return;
    const style = getComputedStyle(this.root);
    const known = new Map<string, string>();
    this.color = (name) => {
      if (!name.startsWith('--')) return name;
      const value = known.get(name) ?? style.getPropertyValue(name).trim();
      known.set(name, value);
      return value;
    };
    this.plot?.destroy();
    const plot = new uPlot(
      this.uplotOptions(width, height),
      this.rows(width * devicePixelRatio),
      this.root,
    );
    this.plot = plot;
    attachZoom(plot, this);
    new MarkTip(plot, () => this.content.marks);
    this.nearest = new NearestLine(plot, {
      lines: () => this.options.lines,
      color: this.color,
      onPick: (line) => this.options.onPick?.(line),
    });
    this.refill();
  }

  /** Gives uPlot the rows of the shown range. */
  private refill(): void {
    const { plot } = this;
    if (plot === undefined) return;
    const [min, max] = this.range;
    plot.batch(() => {
      plot.setData(this.rows(plot.over.clientWidth * devicePixelRatio), false);
      plot.setScale('x', { min, max });
    });
  }

  private rows(columns: number): uPlot.AlignedData {
    const { steps, lines } = this.content;
    const [low, high] = this.range;
    const window = { low, high, log: this.log, columns: Math.max(1, columns) };
    const { rows, dense } = rowsToDraw(steps, lines, window);
    this.dense = dense;
    const { logY } = this.options;
    const drawn = (line: Values): (number | null)[] => {
      const values = rows === null ? line : rows.map((row) => line[row]);
      // A logarithmic axis cannot show values that are not positive.
      if (logY) return values.map((value) => (value !== null && value > 0 ? value : null));
      return values as (number | null)[];
    };
    const x = rows === null ? (steps as number[]) : rows.map((row) => steps[row]);
    return [x, ...this.options.lines.map((_, i) => drawn(lines[i] ?? []))];
  }

  private uplotOptions(width: number, height: number): uPlot.Options {
    const { logX, logY, lines } = this.options;
    const axis: uPlot.Axis = {
      stroke: this.color('--ink-muted'),
      font: '12px system-ui, sans-serif',
      grid: { stroke: this.color('--grid'), width: 1 },
      ticks: { show: false },
    };
    const ticks = { size: axisWidth, gap: 5, space: 26 };
    return {
      width,
      height,
      padding: [8, 20, 0, 0],
      legend: { show: false },
      cursor: this.cursor(),
      scales: {
        // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- ambient const enum
        x: { time: false, distr: logX ? 3 : 1, range: (_, min, max) => [min, max] },
        // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- ambient const enum
        y: { distr: logY ? 3 : 1 },
      },
      axes: [
        { ...axis, size: 22, gap: 4, space: 56, values: (_, splits) => splits.map(stepLabel) },
        { ...axis, ...ticks, values: (_, splits) => formatTicks(splits) },
      ],
      series: [{}, ...lines.map((line) => this.series(line))],
      hooks: {
        setCursor: [(plot) => this.options.onCursor(this.rowUnder(plot))],
        setSelect: [(plot) => zoomToSelection(plot, this)],
        drawSeries: [(plot, index) => this.drawDense(plot, index)],
        draw: [
          (plot) => {
            this.drawMarks(plot);
            this.nearest?.draw();
          },
        ],
      },
    };
  }

  private cursor(): uPlot.Cursor {
    return {
      // uPlot synchronizes only the cursor of the charts. The page synchronizes their zoom.
      sync: { key: 'steps', filters: { pub: (type) => type === 'mousemove', sub: () => true } },
      points: { size: 5, width: 1 },
      drag: { x: true, y: false, setScale: false, dist: kDragPixels },
      y: false,
      bind: {
        mousedown: (_, __, handler) => (event: MouseEvent) => {
          if (event.button === 0 && !event.shiftKey) handler(event);
          return null;
        },
        dblclick: () => () => {
          this.zoomTo(null);
          return null;
        },
      },
    };
  }

  /** The index of the row under the cursor in all data, not only in the drawn rows. */
  private rowUnder(plot: uPlot): number | null {
    const { left = -1 } = plot.cursor;
    if (left < 0) return null;
    const row = nearestIndex(this.content.steps, plot.posToVal(left, 'x'));
    return row < 0 ? null : row;
  }

  private series(line: LineStyle): uPlot.Series {
    const series = seriesOf(line, this.color(line.color));
    if (!isSolid(line)) return series;
    const paths: uPlot.Series.PathBuilder = (...args) =>
      this.dense ? null : (kStroke?.(...args) ?? null);
    return { ...series, paths };
  }

  private drawDense(plot: uPlot, index: number): void {
    const line = this.options.lines[index - 1];
    if (this.dense && isSolid(line)) drawDenseLine(plot, index, this.color(line.color));
  }

  private drawMarks(plot: uPlot): void {
    const { marks, chosen } = this.content;
    drawMarks(plot, marks, chosen, this.color);
  }
}

const kStroke = uPlot.paths.linear?.();

function isSolid({ kind }: LineStyle): boolean {
  return kind !== 'points' && kind !== 'dashed';
}

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

function axisWidth(_: uPlot, labels: readonly string[] | null): number {
  return labels?.some(({ length }) => length > 6) ? kWideAxisWidth : kAxisWidth;
}

function stepLabel(value: number | null): string {
  return value === null || !Number.isInteger(value) ? '' : String(value);
}

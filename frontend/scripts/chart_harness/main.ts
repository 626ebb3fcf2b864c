// Ten charts as the page makes them, moved and zoomed by the events of a mouse: one a frame.
import 'uplot/dist/uPlot.min.css';
import '../../src/app.css';

import { RafScheduler } from '../../src/base/raf_scheduler';
import { LineChart, type LineStyle } from '../../src/ui/charts/line_chart';
import { debiasedEma } from '../../src/core/store/series_store';
import type { Zoom } from '../../src/base/step_range';

const kCharts = 10;
const kPoints = 100_000;
const kLines: readonly LineStyle[] = [
  { label: 'raw', color: '--train', kind: 'faint' },
  { label: 'smoothed', color: '--train', kind: 'line' },
];

const scheduler = new RafScheduler();
const steps = Array.from({ length: kPoints }, (_, i) => i + 1);
let zoom: Zoom = null;

function makeChart(index: number): void {
  const root = document.createElement('div');
  document.body.append(root);
  const raw = steps.map(
    (step) => 2 + 4 * Math.exp(-step / 2e4) + 0.3 * Math.sin(step * (index + 1.7)),
  );
  const lines = [raw, debiasedEma(raw, 0.9)];
  const onZoom = (to: Zoom): void => {
    zoom = to;
    scheduler.redraw();
  };
  const options = { lines: kLines, logX: false, logY: false, onCursor: () => undefined, onZoom };
  const chart = new LineChart(root, options);
  scheduler.addDrawer(() => chart.show({ steps, lines, zoom, marks: [], chosen: null }));
}

function turn(init: WheelEventInit): void {
  const over = document.querySelector('.u-over');
  if (over === null) throw new Error('no chart');
  const { left, top, width, height } = over.getBoundingClientRect();
  const place = { clientX: left + width / 2, clientY: top + height / 2 };
  over.dispatchEvent(
    new WheelEvent('wheel', { ...place, ...init, bubbles: true, cancelable: true }),
  );
}

/** The time of the next frame, once it has been drawn; drawing was asked for before. */
function frame(): Promise<number> {
  return new Promise((resolve) => requestAnimationFrame(resolve));
}

/** Resolves in a separate task: after what the frame has left to do. */
function afterFrame(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = (): void => resolve();
    port2.postMessage(null);
  });
}

interface Result {
  /** From frame to frame. */
  readonly frames: readonly number[];
  /** What of it the page was at work. */
  readonly works: readonly number[];
}

/** Times of frames while one gesture goes on, in milliseconds. */
async function measure(count: number, init: (i: number) => WheelEventInit): Promise<Result> {
  const [frames, works]: [number[], number[]] = [[], []];
  let last = await frame();
  for (let i = 0; i < count; i++) {
    turn(init(i));
    const now = await frame();
    frames.push(now - last);
    last = now;
    await afterFrame();
    works.push(performance.now() - now);
  }
  return { frames, works };
}

async function run(): Promise<Record<string, Result>> {
  for (let i = 0; i < kCharts; i++) makeChart(i);
  for (let i = 0; i < 30; i++) await frame();
  const zoomIn = await measure(60, () => ({ deltaY: -20, ctrlKey: true }));
  const pan = await measure(120, (i) => ({ deltaY: i < 60 ? 15 : -15, shiftKey: true }));
  const zoomOut = await measure(60, () => ({ deltaY: 20, ctrlKey: true }));
  return { 'zoom in': zoomIn, pan, 'zoom out': zoomOut };
}

declare global {
  interface Window {
    __run?: () => Promise<Record<string, Result>>;
  }
}
window.__run = run;

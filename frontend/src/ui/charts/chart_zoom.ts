import type uPlot from 'uplot';
import { held, moved, scaled, type Zoom } from '../../base/step_range';

type Range = readonly [low: number, high: number];

/** The part of a chart that the zoom gestures use. */
export interface Zoomable {
  readonly range: Range;
  /** The range of all data. */
  readonly all: Range;
  readonly log: boolean;
  zoomTo(zoom: Zoom): void;
}

const kWheelFactor = 1.0015;
const kKeyFactor = 0.7;
const kKeyShift = 0.15;

/** Ctrl and the wheel zoom around the mouse; Shift with the wheel or with dragging moves the range. */
export function attachZoom(plot: uPlot, chart: Zoomable): void {
  const { over } = plot;
  over.addEventListener(
    'wheel',
    (event) => {
      const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
      if (event.ctrlKey || event.metaKey) {
        const about = plot.posToVal(event.clientX - over.getBoundingClientRect().left, 'x');
        const factor = kWheelFactor ** event.deltaY;
        chart.zoomTo(scaled(chart.range, factor, about, chart.all, chart.log));
      } else if (sideways !== 0) {
        move(chart, sideways / over.clientWidth);
      } else return;
      event.preventDefault();
    },
    { passive: false },
  );
  over.addEventListener('pointermove', (event) => {
    if (event.shiftKey && (event.buttons & 1) === 1) {
      move(chart, -event.movementX / over.clientWidth);
    }
  });
}

/** Zooms or moves by a key; true if the key belongs to the chart. */
export function zoomByKey(event: KeyboardEvent, chart: Zoomable): boolean {
  const { range, all, log } = chart;
  const middle = log ? Math.sqrt(range[0] * range[1]) : (range[0] + range[1]) / 2;
  if (event.key === '+' || event.key === '=') {
    chart.zoomTo(scaled(range, kKeyFactor, middle, all, log));
  } else if (event.key === '-') {
    chart.zoomTo(scaled(range, 1 / kKeyFactor, middle, all, log));
  } else if (event.key === '0') {
    chart.zoomTo(null);
  } else if (event.shiftKey && (event.key === 'ArrowLeft' || event.key === 'ArrowRight')) {
    move(chart, event.key === 'ArrowLeft' ? -kKeyShift : kKeyShift);
  } else return false;
  return true;
}

/** Zooms to the part that the user selected with the mouse. */
export function zoomToSelection(plot: uPlot, chart: Zoomable): void {
  const { left, width } = plot.select;
  if (width <= 0) return;
  const [low, high] = [plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x')];
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  chart.zoomTo(held([low, high], chart.all));
}

/** Moves the zoomed range. Moving never ends a zoom. */
function move(chart: Zoomable, by: number): void {
  const zoom = moved(chart.range, by, chart.all, chart.log);
  if (zoom !== null) chart.zoomTo(zoom);
}

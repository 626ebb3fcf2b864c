import { type Cells, movedCells } from '../../base/span';
import type { MapData } from '../../core/store/map_data';
import type { HeatmapView } from './heatmap_view';
import { type Window, zoomedBy } from './map_window';

/** A part of the canvas in CSS pixels. */
export interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

export interface GestureTarget {
  readonly view: HeatmapView;
  readonly now: () => Window & { readonly shown: MapData };
  readonly onwindow: (rows: Cells, cols: Cells) => void;
  /** The part that the user is selecting; null after the end of the selection. */
  readonly onselect: (box: Box | null) => void;
}

// A movement shorter than the first number is a click. A selection narrower or lower than the second
// number takes the whole axis.
const kDragPixels = 4;
const kThinPixels = 10;
const kWheelFactor = 1.0015;
// Small movements of the wheel are summed until they reach this number of pixels.
const kWheelPixels = 30;

/**
 * Dragging zooms to the selected part; with Shift or the middle button, it moves the map. The wheel
 * zooms around the mouse; with Shift, it moves the map sideways. If the page scrolls, the wheel zooms
 * only with Ctrl. The listeners are removed when `signal` is aborted.
 */
export function attachGestures(box: HTMLElement, signal: AbortSignal, target: GestureTarget): void {
  const drag = new Drag(box, target);
  box.addEventListener('pointerdown', (event) => drag.begin(event), { signal });
  box.addEventListener('pointermove', (event) => drag.move(event), { signal });
  box.addEventListener('pointerup', (event) => drag.end(event), { signal });
  box.addEventListener('pointercancel', () => drag.cancel(), { signal });
  // Stops the click after a drag, so that it pins nothing.
  box.addEventListener('click', (event) => drag.onClick(event), { signal, capture: true });
  const wheel = new Wheel(box, target);
  box.addEventListener('wheel', (event) => wheel.turn(event), { signal, passive: false });
}

interface Point {
  readonly x: number;
  readonly y: number;
}

class Drag {
  private from: Point | null = null;
  private moves = false;
  private isDrawn = false;
  private start: Pick<Window, 'rows' | 'cols'> | undefined;

  constructor(
    private readonly box: HTMLElement,
    private readonly target: GestureTarget,
  ) {}

  begin(event: PointerEvent): void {
    if (event.pointerType === 'touch' || event.button > 1) return;
    if ((event.target as HTMLElement).tagName === 'BUTTON') return;
    this.from = this.pointOf(event);
    this.moves = event.shiftKey || event.button === 1;
    this.isDrawn = false;
    this.start = this.target.now();
    if (event.button === 1) event.preventDefault();
  }

  move(event: PointerEvent): void {
    const { from } = this;
    if (from === null) return;
    const to = this.pointOf(event);
    if (!this.isDrawn && Math.hypot(to.x - from.x, to.y - from.y) < kDragPixels) return;
    if (!this.isDrawn) this.box.setPointerCapture(event.pointerId);
    this.isDrawn = true;
    if (this.moves) this.pan(from, to);
    else this.target.onselect(this.selected(from, to));
  }

  end(event: PointerEvent): void {
    const { from } = this;
    if (from !== null && this.isDrawn && !this.moves) this.zoom(from, this.pointOf(event));
    this.from = null;
    this.target.onselect(null);
  }

  cancel(): void {
    this.from = null;
    this.isDrawn = false;
    this.target.onselect(null);
  }

  onClick(event: MouseEvent): void {
    if (this.isDrawn) event.stopPropagation();
    this.isDrawn = false;
  }

  private pointOf({ clientX, clientY }: PointerEvent): Point {
    const { left, top } = this.box.getBoundingClientRect();
    return { x: clientX - left, y: clientY - top };
  }

  private pan(from: Point, to: Point): void {
    const { view, now, onwindow } = this.target;
    const { shown, map } = now();
    const start = this.start ?? now();
    const [a, b] = [view.placeAt(shown, from.x, from.y), view.placeAt(shown, to.x, to.y)];
    onwindow(
      movedCells(start.rows, map.rows, Math.round(a.row - b.row)),
      movedCells(start.cols, map.cols, Math.round(a.col - b.col)),
    );
  }

  private selected(from: Point, to: Point): Box {
    const thin = { x: isThin(from.x, to.x), y: isThin(from.y, to.y) };
    const { clientWidth, clientHeight } = this.box;
    const [left, right] = thin.x ? [0, clientWidth] : [from.x, to.x].sort(upwards);
    const [top, bottom] = thin.y ? [0, clientHeight] : [from.y, to.y].sort(upwards);
    return { left, top, width: right - left, height: bottom - top };
  }

  private zoom(from: Point, to: Point): void {
    const { view, now, onwindow } = this.target;
    const { shown, rows, cols } = now();
    const [a, b] = [view.placeAt(shown, from.x, from.y), view.placeAt(shown, to.x, to.y)];
    const part = (cells: Cells, ends: number[]): Cells => {
      const [low, high] = ends.sort(upwards).map(Math.floor);
      return [cells[0] + low, cells[0] + high + 1];
    };
    onwindow(
      isThin(from.y, to.y) ? rows : part(rows, [a.row, b.row]),
      isThin(from.x, to.x) ? cols : part(cols, [a.col, b.col]),
    );
  }
}

class Wheel {
  private sum = 0;

  constructor(
    private readonly box: HTMLElement,
    private readonly target: GestureTarget,
  ) {}

  turn(event: WheelEvent): void {
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    const zooms = event.ctrlKey || event.metaKey || !scrolls(this.box);
    const isZoom = zooms && !event.shiftKey && Math.abs(event.deltaY) >= Math.abs(event.deltaX);
    if (!isZoom && sideways === 0) return;
    event.preventDefault();
    this.sum += isZoom ? event.deltaY : sideways;
    if (Math.abs(this.sum) < kWheelPixels) return;
    const by = this.sum;
    this.sum = 0;
    if (isZoom) this.zoom(event, kWheelFactor ** by);
    else this.move(by / this.box.clientWidth);
  }

  private zoom(event: WheelEvent, factor: number): void {
    const { view, now, onwindow } = this.target;
    const window = now();
    const { left, top } = this.box.getBoundingClientRect();
    const at = view.placeAt(window.shown, event.clientX - left, event.clientY - top);
    const about = { row: window.rows[0] + at.row, col: window.cols[0] + at.col };
    onwindow(...zoomedBy(window, factor, about));
  }

  private move(share: number): void {
    const { now, onwindow } = this.target;
    const { rows, cols, map } = now();
    const wish = share * (cols[1] - cols[0]);
    const by = Math.sign(wish) * Math.max(1, Math.round(Math.abs(wish)));
    onwindow(rows, movedCells(cols, map.cols, by));
  }
}

function isThin(a: number, b: number): boolean {
  return Math.abs(a - b) < kThinPixels;
}

function upwards(a: number, b: number): number {
  return a - b;
}

/** Whether the wheel would scroll the element or one of its ancestors. */
function scrolls(element: HTMLElement): boolean {
  for (let each: HTMLElement | null = element; each !== null; each = each.parentElement) {
    const isScrollable =
      each === document.documentElement || /auto|scroll/.test(getComputedStyle(each).overflowY);
    if (isScrollable && each.scrollHeight > each.clientHeight + 1) return true;
  }
  return false;
}

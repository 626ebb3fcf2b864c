import { foldExtremes } from '../../core/store/fold';
import type { MapData } from '../../core/store/map_data';
import type { Lut } from './lut';
import { paintCells, type Scale } from './paint';

/** Draws a map without axes on a canvas, cell by cell; the style sheet stretches it. */
export class SmallMapView {
  private readonly context: CanvasRenderingContext2D;
  private image: ImageData | undefined;
  private fold: MapData | undefined;

  constructor(private readonly canvas: HTMLCanvasElement) {
    const context = canvas.getContext('2d', { alpha: false });
    if (context === null) throw new Error('no 2D canvas');
    this.context = context;
  }

  draw(map: MapData, scale: Scale, lut: Lut): void {
    const { clientWidth, clientHeight } = this.canvas;
    if (clientWidth === 0 || clientHeight === 0) return;
    const ratio = window.devicePixelRatio;
    const folded = foldExtremes(
      map,
      Math.round(clientHeight * ratio),
      Math.round(clientWidth * ratio),
      this.fold,
    );
    this.fold = folded === map ? undefined : folded;
    const { rows, cols } = folded;
    if (this.image?.width !== cols || this.image.height !== rows) {
      this.canvas.width = cols;
      this.canvas.height = rows;
      this.image = this.context.createImageData(cols, rows);
    }
    paintCells(folded, scale, lut, new Uint32Array(this.image.data.buffer));
    this.context.putImageData(this.image, 0, 0);
  }
}

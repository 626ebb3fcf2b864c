import type { LineStyle } from './line_style';
import type { Theme } from '../../core/session/theme';

/** A colour for layer `index` of `count`: from blue over violet to orange, first to last. */
export function layerColor(index: number, count: number, theme: Theme): string {
  const t = count > 1 ? index / (count - 1) : 0;
  const hue = Math.round(210 + 180 * t) % 360;
  return `hsl(${hue} 62% ${theme === 'light' ? 42 : 66}%)`;
}

/** One line for each layer; the line of the chosen layer is bold. */
export function layerLines(
  names: readonly string[],
  chosen: number,
  theme: Theme,
): readonly LineStyle[] {
  return names.map((label, index) => ({
    label,
    color: layerColor(index, names.length, theme),
    kind: index === chosen ? 'bold' : 'thin',
  }));
}

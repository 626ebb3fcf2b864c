import type { Theme } from '../../core/session/theme';
import { cssColor } from './heatmap_view';
import { lutOf, luminance, unpack } from './lut';

/** A background in a sequential colour, and a text colour that is readable on it. */
export interface Swatch {
  readonly ground: string;
  readonly ink: string;
}

// The luminance at which black text and white text have the same WCAG contrast.
const kMiddle = 0.179;

/** The swatch for `part`, from 0 to 1; NaN if not known. */
export function swatchOf(part: number, theme: Theme): Swatch {
  const lut = lutOf(theme, 'sequential');
  const at = Math.round(255 * Math.min(1, Math.max(0, part)));
  const word = Number.isNaN(part) ? lut.missing : lut.colors[at];
  return { ground: cssColor(word), ink: luminance(unpack(word)) > kMiddle ? '#000' : '#fff' };
}

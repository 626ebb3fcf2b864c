/** The style of a line; `color` is CSS, or the name of a custom property of the style sheet. */
export interface LineStyle {
  readonly label: string;
  readonly color: string;
  readonly kind: 'line' | 'bold' | 'thin' | 'faint' | 'points' | 'dashed';
}

/** The numbers that the colour of a cell can show. */
export const kLensColours = ['target', 'best', 'entropy'] as const;
export type LensColour = (typeof kLensColours)[number];

export const kColourTexts: Readonly<Record<LensColour, string>> = {
  target: 'probability of the true next token',
  best: 'probability of the best token',
  entropy: 'entropy of the prediction, in nats',
};

/** The numbers of one cell. */
interface CellNumbers {
  readonly bestScore: number;
  readonly logSumExp: number;
  readonly entropy: number;
  readonly loss: number;
}

/** The number that the colour of a cell shows; NaN: not known. */
export function colourNumber(
  { bestScore, logSumExp, entropy, loss }: CellNumbers,
  colour: LensColour,
): number {
  if (colour === 'entropy') return entropy;
  return Math.exp(colour === 'target' ? -loss : bestScore - logSumExp);
}

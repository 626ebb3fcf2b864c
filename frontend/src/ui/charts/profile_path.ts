/** The ends of a profile's axis: the range of all finite values, widened if they are all equal. */
export function profileRange(values: readonly (number | null)[]): readonly [number, number] {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value === null || !Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) return [0, 1];
  if (low < high) return [low, high];
  const room = Math.abs(low) / 2 || 1;
  return [low - room, high + room];
}

/** An SVG path in a box of height 1, with width 1 for each value; gaps break the path. */
export function profilePath(values: readonly (number | null)[]): string {
  const [low, high] = profileRange(values);
  let path = '';
  let isOpen = false;
  values.forEach((value, i) => {
    if (value === null || !Number.isFinite(value)) {
      isOpen = false;
      return;
    }
    const y = Number((1 - (value - low) / (high - low)).toFixed(4));
    // A value without neighbours is drawn as a short line.
    path += isOpen ? `L${i + 0.5} ${y}` : `M${i + 0.4} ${y}L${i + 0.5} ${y}`;
    isOpen = true;
  });
  return path;
}

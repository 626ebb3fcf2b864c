/** Writes a number with `digits` significant digits and the sign "−"; NaN and Inf by name. */
export function formatNumber(value: number, digits = 4): string {
  if (Number.isNaN(value)) return 'NaN';
  if (value === Number.POSITIVE_INFINITY) return '+Inf';
  if (value === Number.NEGATIVE_INFINITY) return '−Inf';
  if (value === 0) return '0';
  const magnitude = Math.abs(value);
  const text =
    magnitude >= 1e5 || magnitude < 1e-3
      ? value.toExponential(Math.max(0, digits - 1))
      : value.toPrecision(digits);
  return text.replace(/-/g, '−').replace('e+', 'e');
}

/**
 * Writes a number on an axis, without zeros at the end of the fraction. `digits`: of numbers outside of
 * 1e-3 to 1e5.
 */
export function formatTick(value: number, digits = 3): string {
  const magnitude = Math.abs(value);
  if (magnitude >= 1e-3 && magnitude < 1e5) {
    return String(Number(value.toPrecision(6))).replace('-', '−');
  }
  const text = formatNumber(Number(value.toPrecision(6)), digits);
  return text.replace(/(\.\d*?)0+(?=e|$)/, '$1').replace(/\.(?=e|$)/, '');
}

/** Writes the numbers of an axis, with as many digits as it takes to tell them apart. */
export function formatTicks(values: readonly (number | null)[]): string[] {
  const write = (digits: number): string[] =>
    values.map((value) => (value === null ? '' : formatTick(value, digits)));
  const enough = [3, 4, 5].find((digits) => new Set(write(digits)).size === new Set(values).size);
  return write(enough ?? 6);
}

const kUnits = ['', 'k', 'M', 'G', 'T'] as const;

/** 3290112 -> "3.29 M". */
export function formatCount(value: number): string {
  if (!Number.isFinite(value)) return formatNumber(value);
  let unit = 0;
  let scaled = value;
  // A number that rounds to 1000 takes the next unit.
  while (Math.abs(scaled) >= (unit === 0 ? 1000 : 999.5) && unit < kUnits.length - 1) {
    scaled /= 1000;
    unit += 1;
  }
  if (unit === 0) return String(Math.round(scaled));
  return `${scaled.toPrecision(3)}\u00a0${kUnits[unit]}`;
}

/** 1536 -> "1.5 KiB". */
export function formatBytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB'] as const;
  let unit = 0;
  let scaled = value;
  while (scaled >= 1024 && unit < units.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || scaled >= 100 ? 0 : 1;
  return `${scaled.toFixed(digits)}\u00a0${units[unit]}`;
}

/** 3, 5 -> "3–5"; 3, 3 -> "3". */
export function formatRange(first: number, last: number): string {
  return first === last ? String(first) : `${first}–${last}`;
}

export function formatInteger(value: number): string {
  return value.toLocaleString('en-US').replace(/,/g, '\u202f');
}

/** 4, "forward" -> "4 forwards". */
export function formatPlural(count: number, name: string): string {
  return `${formatInteger(count)} ${count === 1 ? name : `${name}s`}`;
}

/** 3700 -> "1 h 02 min". */
export function formatDuration(seconds: number): string {
  const whole = Math.round(seconds);
  const two = (value: number): string => String(value).padStart(2, '0');
  if (whole < 60) return `${whole}\u00a0s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}\u00a0min ${two(whole % 60)}\u00a0s`;
  const minutes = Math.round(whole / 60);
  if (minutes < 60 * 24) return `${Math.floor(minutes / 60)}\u00a0h ${two(minutes % 60)}\u00a0min`;
  const hours = Math.round(minutes / 60);
  return `${Math.floor(hours / 24)}\u00a0d ${two(hours % 24)}\u00a0h`;
}

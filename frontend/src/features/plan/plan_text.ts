import { hasK, kExpression, kMethods, type PlanRow } from './plan_row';

// A draft of the plan as it stands in the address: entries with a star between them, each a point
// and then its members behind full stops, a letter and what was typed:
// "HiddenStates.l1-4.t32*MLP1.kstats". Other characters are written as _ and two hex digits.

/** An entry of which nothing was chosen. */
const kPlain: PlanRow = {
  enabled: true,
  point: '',
  direction: 'value',
  layers: '',
  every: '1',
  train: true,
  evaluation: false,
  allEvaluation: false,
  microBatches: '',
  prompts: '',
  rows: '',
  tokens: '',
  kind: 'tile',
  tiles: '',
  method: 'mean',
  expression: '',
  range: '',
  bins: '',
  vectors: [],
  normalize: true,
  k: '',
  dtype: 'f32',
  rest: {},
};

type TextMember =
  | 'layers'
  | 'every'
  | 'microBatches'
  | 'prompts'
  | 'rows'
  | 'tokens'
  | 'kind'
  | 'tiles'
  | 'range'
  | 'bins'
  | 'k'
  | 'dtype';

const kTexts: Readonly<Record<string, TextMember>> = {
  l: 'layers',
  e: 'every',
  b: 'microBatches',
  p: 'prompts',
  r: 'rows',
  w: 'tokens',
  k: 'kind',
  t: 'tiles',
  h: 'range',
  n: 'bins',
  o: 'k',
  d: 'dtype',
};

/** A draft without entries is a draft as well. */
const kNoEntries = '-';

export function formatDraft(rows: readonly PlanRow[]): string {
  return rows.length === 0 ? kNoEntries : rows.map(formatRow).join('*');
}

/** The draft of an address; null where there is none, or one that cannot be read. */
export function parseDraft(text: string): PlanRow[] | null {
  if (text === '') return null;
  if (text === kNoEntries) return [];
  try {
    return text.split('*').map(parseRow);
  } catch (error) {
    if (error instanceof URIError) return null;
    throw error;
  }
}

function formatRow(given: PlanRow): string {
  const row = withoutUnused(given);
  const parts = [row.point];
  for (const [letter, member] of Object.entries(kTexts)) {
    if (row[member].trim() !== kPlain[member]) parts.push(letter + row[member].trim());
  }
  if (!row.enabled) parts.push('x');
  if (row.direction === 'gradient') parts.push('g');
  if (row.train !== kPlain.train || row.evaluation) {
    parts.push(`f${row.train ? 't' : ''}${row.evaluation ? 'e' : ''}`);
  }
  const method = row.method === kExpression ? `=${row.expression.trim()}` : row.method;
  if (method !== kPlain.method) parts.push(`m${method}`);
  for (const vector of row.vectors) parts.push(`v${vector}`);
  if (!row.normalize) parts.push('u');
  if (row.allEvaluation) parts.push('A');
  const { tiles_one_rank: tiles, method_one_rank: reduction, data_dims: dims } = row.rest;
  if (tiles !== undefined) parts.push(`T${tiles}`);
  if (reduction !== undefined) parts.push(`M${reduction}`);
  if (dims !== undefined) parts.push(`D${dims}`);
  return parts.map(escape).join('.');
}

/** Without the members that the compressor and the data do not use, and defaults in other words. */
function withoutUnused(row: PlanRow): PlanRow {
  const { kind } = row;
  const tile = kind === 'tile';
  const prompted = row.prompts !== '';
  const ranged = kind === 'stats' && row.range.trim() !== '';
  return {
    ...row,
    microBatches: prompted || row.microBatches.trim() === '0' ? '' : row.microBatches,
    train: prompted || row.train,
    evaluation: !prompted && row.evaluation,
    allEvaluation: !prompted && row.evaluation && row.allEvaluation,
    rows: row.rows.trim() === '1' ? '' : row.rows,
    tiles: tile ? row.tiles : '',
    method: tile ? row.method : 'mean',
    range: ranged ? row.range : '',
    bins: ranged ? row.bins : '',
    vectors: kind === 'projection' ? row.vectors : [],
    normalize: kind !== 'projection' || row.normalize,
    k: hasK(kind) ? row.k : '',
    rest: tile ? row.rest : {},
  };
}

function parseRow(text: string): PlanRow {
  const [point, ...parts] = text.split('.').map(unescape);
  const row: PlanRow = { ...kPlain, point, vectors: [], rest: {} };
  for (const part of parts) readMember(row, part.slice(0, 1), part.slice(1));
  return row;
}

function readMember(row: PlanRow, letter: string, value: string): void {
  if (letter in kTexts) row[kTexts[letter]] = value;
  else if (letter === 'x') row.enabled = false;
  else if (letter === 'g') row.direction = 'gradient';
  else if (letter === 'A') row.allEvaluation = true;
  else if (letter === 'v') row.vectors.push(value);
  else if (letter === 'u') row.normalize = false;
  else if (letter === 'M') row.rest = { ...row.rest, method_one_rank: value };
  else if (letter === 'T' && /^\d{1,9}$/.test(value)) {
    row.rest = { ...row.rest, tiles_one_rank: Number(value) };
  } else if (letter === 'D' && /^\d$/.test(value)) {
    row.rest = { ...row.rest, data_dims: Number(value) };
  } else if (letter === 'f') {
    row.train = value.includes('t');
    row.evaluation = value.includes('e');
  } else if (letter === 'm' && value.startsWith('=')) {
    row.method = kExpression;
    row.expression = value.slice(1);
  } else if (letter === 'm' && (kMethods as readonly string[]).includes(value)) {
    row.method = value;
  }
}

function escape(text: string): string {
  return encodeURIComponent(text)
    .replace(/[_.!~*'()]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)
    .replace(/%/g, '_');
}

function unescape(text: string): string {
  return decodeURIComponent(text.replace(/_/g, '%'));
}

import { planCompressor, planCompressors } from '../../core/registry/plan';
import { read } from '../../base/schema';
import { type CompressorFacts, compressorSchema } from '../../protocol/messages';
import type { EntryRow, PlanRow } from '../../core/registry/plan_feature';
import { compressorMembers } from './plan_row';

// The text of a draft of the plan in the URL. Stars separate the entries. An entry is a point and
// its members, with full stops between them. A member is a letter and the typed text:
// "HiddenStates.l1-4.t32*MLP1.kstats". Other characters are written as _ and two hex digits.

/** An entry with the default of each member. */
const kPlain: EntryRow = {
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
  responses: false,
  rows: '',
  tokens: '',
  meanOver: '',
  kind: 'tile',
  more: null,
  dtype: 'f32',
};

type TextMember =
  'layers' | 'every' | 'microBatches' | 'prompts' | 'rows' | 'tokens' | 'meanOver' | 'kind';

const kTexts: Readonly<Record<string, TextMember>> = {
  l: 'layers',
  e: 'every',
  b: 'microBatches',
  p: 'prompts',
  r: 'rows',
  w: 'tokens',
  y: 'meanOver',
  k: 'kind',
};

/** The text of a draft without entries. */
const kNoEntries = '-';

export function formatDraft(rows: readonly PlanRow[]): string {
  return rows.length === 0 ? kNoEntries : rows.map(formatRow).join('*');
}

/** The draft of a URL; null if the URL has no draft, or if the draft cannot be read. */
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
  const compressor = planCompressor(row.kind);
  const parts = [row.point];
  for (const [letter, member] of Object.entries(kTexts)) {
    if (row[member].trim() !== kPlain[member]) parts.push(letter + row[member].trim());
  }
  for (const [letter, member] of Object.entries(compressor?.texts ?? {})) {
    const text = row[member].trim();
    if (text !== '') parts.push(letter + text);
  }
  if (row.dtype !== kPlain.dtype) parts.push(`d${row.dtype}`);
  if (row.more !== null) parts.push(`z${JSON.stringify(row.more)}`);
  if (!row.enabled) parts.push('x');
  if (row.direction === 'gradient') parts.push('g');
  if (row.train !== kPlain.train || row.evaluation) {
    parts.push(`f${row.train ? 't' : ''}${row.evaluation ? 'e' : ''}`);
  }
  if (row.allEvaluation) parts.push('A');
  if (row.responses) parts.push('R');
  return [...parts, ...(compressor?.marksOf?.(row) ?? [])].map(escape).join('.');
}

/** The row without explicit defaults and without members that the compressor and the data do not use. */
function withoutUnused(row: PlanRow): PlanRow {
  const { kind } = row;
  const prompted = row.prompts !== '';
  const compressor = planCompressor(kind);
  const used = Object.keys(compressor?.rowOf({ kind }) ?? {}) as (keyof PlanRow)[];
  return {
    ...row,
    ...compressorMembers({ kind }),
    ...Object.fromEntries(used.map((member) => [member, row[member]])),
    ...compressor?.unused?.(row),
    microBatches: prompted || row.microBatches.trim() === '0' ? '' : row.microBatches,
    train: prompted || row.train,
    evaluation: !prompted && row.evaluation,
    allEvaluation: !prompted && row.evaluation && row.allEvaluation,
    responses: prompted && row.responses,
    meanOver: prompted ? row.meanOver : '',
    rows: row.rows.trim() === '1' ? '' : row.rows,
    more: row.more?.kind === kind ? row.more : null,
  };
}

function parseRow(text: string): PlanRow {
  const [point, ...parts] = text.split('.').map(unescape);
  const row: PlanRow = { ...kPlain, ...compressorMembers({ kind: kPlain.kind }), point };
  for (const part of parts) readMember(row, part.slice(0, 1), part.slice(1));
  return row;
}

function moreOf(text: string): CompressorFacts | null {
  try {
    return read(compressorSchema, JSON.parse(text)) ?? null;
  } catch {
    return null;
  }
}

function readMember(row: PlanRow, letter: string, value: string): void {
  if (letter in kTexts) row[kTexts[letter]] = value;
  else if (letter === 'd') row.dtype = value;
  else if (letter === 'z') row.more = moreOf(value);
  else if (letter === 'x') row.enabled = false;
  else if (letter === 'g') row.direction = 'gradient';
  else if (letter === 'A') row.allEvaluation = true;
  else if (letter === 'R') row.responses = true;
  else if (letter === 'f') {
    row.train = value.includes('t');
    row.evaluation = value.includes('e');
  } else readCompressorMember(row, letter, value);
}

/** A letter belongs to one compressor, or to several compressors that share the member. */
function readCompressorMember(row: PlanRow, letter: string, value: string): void {
  for (const compressor of planCompressors()) {
    const member = compressor.texts?.[letter];
    if (member !== undefined) row[member] = value;
    else if (compressor.readMark?.(row, letter, value) !== true) continue;
    return;
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

// What the trainer thinks of a plan: refusals in its words, and the bytes that it would send.

import { kPromptSet, pointNamed } from './fake_data.ts';
import { type Entry, recordsOf } from './fake_tensors.ts';

export interface PlanRefusal {
  readonly code: string;
  readonly message: string;
  readonly where: string;
  readonly remedy: string;
}

/** Why a plan does not fit; null where it does. */
export function refusalOf(entries: readonly Entry[]): PlanRefusal | null {
  for (const [i, entry] of entries.entries()) {
    const refusal = refusalOfEntry(entry, `plan.entries[${i}]`);
    if (refusal !== null) return refusal;
  }
  return null;
}

function refusalOfEntry(entry: Entry, where: string): PlanRefusal | null {
  const point = pointNamed(entry.point);
  const code = 'invalid_argument';
  const tiles = entry.compressor?.tiles ?? 1;
  if (entry.point === 'QKV' && entry.compressor?.kind === 'projection') {
    const message = '"evil" has 256 numbers, QKV has 768 features';
    const remedy = 'project a point of the residual stream, such as HiddenStates';
    return { code, message, where: `${where}.compressor.vectors`, remedy };
  }
  if (point === undefined || (point.features > 0 && tiles > point.features)) {
    const features = point?.features ?? 0;
    const message = `${tiles} tiles of ${features} features`;
    const remedy = `ask for at most ${features} tiles`;
    return { code, message, where: `${where}.compressor.tiles`, remedy };
  }
  return refusalOfExpression(entry.compressor?.method ?? 'mean', `${where}.compressor.method`);
}

const kRemedy = 'docs/expressions.md lists the operators';

/** Knows one operator: whatever else is called is refused as docs/expressions.md shows it. */
function refusalOfExpression(text: string, where: string): PlanRefusal | null {
  const match = /\.(\w+)\(/.exec(text);
  if (match === null || match[1] === 'mean') return null;
  const at = match.index + 1;
  const column = `line 1, column ${at + 1}`;
  const marks = `${' '.repeat(at)}^${'~'.repeat(match[1].length - 1)}`;
  const message = `there is no "${match[1]}", did you mean "mean"? (${column})\n  ${text}\n  ${marks}`;
  return { code: 'invalid_expression', message, where: `${where}, ${column}`, remedy: kRemedy };
}

export interface PlanEstimate {
  readonly entries: readonly { readonly bytes: number; readonly records: number }[];
  readonly bytes_per_step: number;
}

const kHeader = 128;

/** Mean bytes and records of a training step, counted over a step at which all entries send. */
export function estimateOf(entries: readonly Entry[]): PlanEstimate {
  const estimates = entries.map((entry) => {
    const every = (entry.every ?? 1) * (entry.prompts === undefined ? 1 : kPromptSet.interval);
    const sent = recordsOf(entry, every, () => 0);
    const sizes = sent.map(({ payload }) => kHeader + 8 * Math.ceil(payload.length / 8));
    const bytes = sizes.reduce((sum, each) => sum + each, 0);
    return { bytes: bytes / every, records: sent.length / every };
  });
  return {
    entries: estimates,
    bytes_per_step: estimates.reduce((sum, { bytes }) => sum + bytes, 0),
  };
}

/** What `plan.check` answers. */
export function answerCheck(
  entries: readonly Entry[],
  hindrance: { readonly code: string; readonly message: string } | null,
  result: (value: unknown) => void,
  error: (code: string, message: string, where?: string, remedy?: string) => void,
): void {
  const refusal = refusalOf(entries);
  if (hindrance !== null) error(hindrance.code, hindrance.message);
  else if (refusal === null) result(estimateOf(entries));
  else error(refusal.code, refusal.message, refusal.where, refusal.remedy);
}

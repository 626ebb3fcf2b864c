import { planCompressors } from '../../core/registry/plan';
import { orElse, type PlanRow } from '../../core/registry/plan_feature';
import { formatDraft } from './plan_text';

/** The change of one entry by a draft. */
export interface PlanChange {
  readonly kind: 'added' | 'removed' | 'changed' | 'moved';
  /** The number of the entry in the draft, from 1. A removed entry has its number in the plan in force. */
  readonly entry: number;
  readonly point: string;
  /** The changed members, such as "layers 1-4 → 2-3"; empty if the kind is the whole change. */
  readonly members: readonly string[];
}

/** The changes from the plan in force to a draft: removed entries first, then in the draft's order. */
export function changesOf(
  inForce: readonly PlanRow[],
  draft: readonly PlanRow[],
): readonly PlanChange[] {
  const partners = partnersOf(inForce, draft);
  const changes: PlanChange[] = inForce.flatMap(({ point }, index) =>
    partners.includes(index) ? [] : [{ kind: 'removed', entry: index + 1, point, members: [] }],
  );
  let furthest = -1;
  draft.forEach((row, index) => {
    const about = { entry: index + 1, point: row.point };
    const partner = partners[index];
    if (partner === -1) {
      changes.push({ kind: 'added', ...about, members: [] });
      return;
    }
    const members = membersOf(inForce[partner], row);
    if (members.length > 0) changes.push({ kind: 'changed', ...about, members });
    else if (partner < furthest) changes.push({ kind: 'moved', ...about, members });
    furthest = Math.max(furthest, partner);
  });
  return changes;
}

/** For each entry of the draft, the index of its entry in the plan in force; -1 for a new entry. */
function partnersOf(inForce: readonly PlanRow[], draft: readonly PlanRow[]): readonly number[] {
  const partners = draft.map(() => -1);
  const free = new Set(inForce.keys());
  // First the same entry, then the most similar entry of the same point.
  const likenesses: readonly ((row: PlanRow) => string)[] = [
    (row) => formatDraft([row]),
    (row) => [row.point, row.direction, row.prompts, row.kind].join(),
    (row) => [row.point, row.direction, row.prompts].join(),
    (row) => row.point,
  ];
  for (const likeness of likenesses) {
    draft.forEach((row, index) => {
      if (partners[index] !== -1) return;
      const found = [...free].find((each) => likeness(inForce[each]) === likeness(row));
      if (found === undefined) return;
      partners[index] = found;
      free.delete(found);
    });
  }
  return partners;
}

type Member = readonly [name: string, of: (row: PlanRow) => string];

const kMembersBefore: readonly Member[] = [
  ['', (row) => (row.enabled ? 'on' : 'off')],
  ['direction', (row) => row.direction],
  ['layers', (row) => orElse(row.layers, 'all')],
  ['compressor', (row) => row.kind],
];

const kMembersAfter: readonly Member[] = [
  ['every', (row) => row.every],
  ['data', (row) => orElse(row.prompts, "the run's own")],
  ['phases', phasesOf],
  ['micro-batches', (row) => (row.prompts === '' ? orElse(row.microBatches, '0') : '')],
  ['rows', (row) => (row.rows.trim() === '0' ? 'all' : orElse(row.rows, '1'))],
  ['tokens', (row) => orElse(row.tokens, 'all')],
  ['mean over', (row) => orElse(row.prompts === '' ? '' : row.meanOver, 'nothing')],
  ['responses', (row) => (row.prompts !== '' && row.responses ? 'with' : 'without')],
  ['dtype', (row) => row.dtype],
];

function membersOf(before: PlanRow, after: PlanRow): readonly string[] {
  const ofCompressors = planCompressors().flatMap(({ members = [] }) => members);
  return [...kMembersBefore, ...ofCompressors, ...kMembersAfter].flatMap(([name, of]) => {
    const [old, now] = [of(before), of(after)];
    if (old === now) return [];
    if (name === '') return [now];
    // A member that only one of the compressors has.
    if (old === '' || now === '') return now === '' ? [] : [`${name} ${now}`];
    return [`${name} ${old} → ${now}`];
  });
}

function phasesOf(row: PlanRow): string {
  if (row.prompts !== '') return '';
  return [row.train ? 'train' : '', row.evaluation ? 'eval' : '']
    .filter((phase) => phase !== '')
    .join(' + ');
}
